"""The end of the supervisor, from the last decision or a refusal; pure."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.errors import Refusal
from ascend_supervisor.events.supervisor import SupervisorExited
from ascend_supervisor.life import Start
from ascend_supervisor.outcome import Ended, Failure
from ascend_supervisor.restart_policy import Stop
from ascend_supervisor.untrusted_text import printable
from ascend_supervisor.workers.root_cause import cause_first, failure_text, root_cause


class Exit(Struct, frozen=True):
    """The end: its event, and ``refusal``, a sentence, if the root cause is not a failed process.

    The sentence also goes to stderr, for people who do not read events. ``is_retryable``: a
    controller may try again. ``start`` is that of the last generation, None if there was none.
    """

    event: SupervisorExited
    refusal: str | None = None
    is_retryable: bool = False
    start: Start | None = None

    def with_retryable_code(self, code: int | None) -> Exit:
        """The same end with the exit ``code`` of --retryable-exit-code, if it is retryable."""
        own = self.event.exit_code
        if code is None or code == own or not self.is_retryable:
            return self
        return replace(self, event=replace(self.event, exit_code=code, own_exit_code=own))


def refused(refusal: Refusal, generations: int = 0) -> Exit:
    """The end by a refusal: it is its own root cause."""
    sentence = printable(str(refusal))
    event = SupervisorExited(refusal.exit_code, sentence, generations, sentence)
    return Exit(event, sentence, refusal.is_retryable)


def exit_by(stop: Stop, generations: int, ended: Ended | None, start: Start | None) -> Exit:
    """The end by a decision; ``ended`` and ``start`` are those of the last generation."""
    cause = stop.cause or (None if ended is None else root_cause(ended))
    text = failure_text(cause, stop.server) if isinstance(cause, Failure) else cause
    reason = cause_first(cause, stop.reason)
    event = SupervisorExited(stop.exit_code, reason, generations, text, peers_server=stop.server)
    is_told = isinstance(cause, Failure) or not stop.exit_code
    return Exit(event, None if is_told else text, stop.is_retryable, start)
