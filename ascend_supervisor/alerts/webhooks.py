"""The endpoints of --notify-url: each gets every message, in a queue of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, NoReturn

import anyio
from msgspec import Struct

from ascend_supervisor.alerts.formats import body_of, complaint_of, format_of
from ascend_supervisor.alerts.messages import Alert, Course, Sender, after, alert_of, tells
from ascend_supervisor.alerts.outbox import Outbox
from ascend_supervisor.alerts.post import PostFailed, post
from ascend_supervisor.events import Event, Report, timestamp
from ascend_supervisor.events.supervisor import Diagnostic
from ascend_supervisor.life import JobSeen
from ascend_supervisor.phrases import counted
from ascend_supervisor.settings.alert_options import AlertFormat, AlertKind, Webhook
from ascend_supervisor.tasks.race import every

if TYPE_CHECKING:
    import ssl

SOURCE = "--notify-url"
PAUSES = (0.0, 0.5, 1.0)
"""Before each try: all of them have room after the last event, if the endpoint answers at once."""
LAST_SECONDS = 2.0
"""How long the message of the last event may take."""


class Targets(Struct, frozen=True):
    """``trust`` is whose certificates are accepted; None if no URL is https."""

    webhooks: tuple[Webhook, ...]
    form: AlertFormat
    trust: ssl.SSLContext | None


class Webhooks:
    """``report`` takes every event, and makes messages of these ``kinds``, from ``begin`` on.

    ``seen`` gives the servers of the job, ``account`` what the time was spent on.
    """

    def __init__(
        self,
        targets: Targets,
        kinds: Collection[AlertKind],
        sender: Sender,
        seen: Callable[[], JobSeen | None],
        account: Callable[[], str],
        report: Report,
    ) -> None:
        self._kinds = kinds
        self._sender = sender
        self._seen = seen
        self._account = account
        self._course = Course()
        self._has_begun = False
        self._outboxes = [_outbox(webhook, targets, report) for webhook in targets.webhooks]

    def begin(self) -> None:
        self._has_begun = True

    def report(self, event: Event) -> None:
        self._course = after(self._course, event)
        if not self._has_begun:
            return
        ts = timestamp(datetime.now(timezone.utc))
        alert = alert_of(event, self._course, self._kinds, self._sender, self._account, ts)
        if alert is not None and tells(self._seen(), event):
            for outbox in self._outboxes:
                outbox.put(alert)

    async def keep(self) -> NoReturn:
        await every(*(outbox.keep for outbox in self._outboxes))
        raise AssertionError

    async def finish(self) -> None:
        await every(*(partial(outbox.finish, LAST_SECONDS) for outbox in self._outboxes))


def _outbox(webhook: Webhook, targets: Targets, report: Report) -> Outbox[Alert]:
    form = format_of(webhook, targets.form)

    def tell(sentence: str) -> None:
        report(Diagnostic(SOURCE, f"{webhook}: {sentence}", None))

    async def deliver(alert: Alert) -> None:
        body, tries = body_of(alert, form), 0
        obstacle: str | None = ""
        try:
            for pause in PAUSES:
                await anyio.sleep(pause)
                obstacle = await _obstacle(webhook, form, body, targets)
                tries += 1
                if obstacle is None:
                    return
        finally:  # also where it is given up
            if obstacle is not None:
                tell(_not_taken(tries, obstacle))

    return Outbox(deliver, tell, "message")


def _not_taken(tries: int, obstacle: str) -> str:
    """Without a try that has failed, nobody knows whether it was taken."""
    if not tries:
        return "a message had no answer yet when the job ended, so it may not have come"
    return f"a message was not taken in {counted(tries, 'try', 'tries')}: {obstacle}"


async def _obstacle(
    webhook: Webhook, form: AlertFormat, body: bytes, targets: Targets
) -> str | None:
    """Why one try has failed; None if the message was taken."""
    try:
        return complaint_of(form, *await post(webhook, body, targets.trust))
    except PostFailed as failed:
        return str(failed)
