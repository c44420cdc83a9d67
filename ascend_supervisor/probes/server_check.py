"""Whether this server is fit for the job, asked before each generation (--server-check).

Most of it is found out while the rank table is waited for, and once more if that was long ago.
"""

from __future__ import annotations

from typing import Protocol

import anyio

from ascend_supervisor.doctor.check import Checked, sentences, unknown, verdict_of
from ascend_supervisor.errors import Unavailable
from ascend_supervisor.events import Report
from ascend_supervisor.events.server import ServerChecked
from ascend_supervisor.life import Life, Plan
from ascend_supervisor.outcome import Fault
from ascend_supervisor.probes import Probe
from ascend_supervisor.tasks.clock import Clock

FRESH_SECONDS = 60.0
"""So long what was found before a plan is believed: a rank table may come hours later."""


class Examiner(Protocol):
    """Each takes a bounded time."""

    async def early(self) -> Checked:
        """What needs no plan."""

    async def late(self, plan: Plan, early: Checked) -> Checked:
        """All of it; ``early`` is what was found before there was a plan.

        Raises SettingsRefused for a check that this plan does not allow.
        """


class ServerCheck(Probe):
    """Ends a job whose server is not fit, at no charge: no generation has begun."""

    def __init__(self, examiner: Examiner, clock: Clock, report: Report) -> None:
        self._examiner = examiner
        self._clock = clock
        self._report = report
        self._is_due = True
        """A generation has run since the last check, or there was none yet."""
        self._is_awaited = False
        self._wanted = anyio.Event()
        self._done = anyio.Event()
        self._early = Checked()
        self._early_seconds = 0.0
        self._found_at = 0.0

    async def keep(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted = anyio.Event()
            await self._look()
            self._done.set()

    async def _look(self) -> None:
        began = self._clock.elapsed()
        try:
            self._early = await self._examiner.early()
        except Exception as error:  # noqa: BLE001  (a defect here ends no job)
            self._early = Checked((unknown("the check", f"it has failed: {error!r}"),))
        self._found_at = self._clock.elapsed()
        self._early_seconds = self._found_at - began

    async def released(self) -> None:
        """It begins; ``ready`` waits for its end."""
        if self._is_due:
            self._is_due, self._is_awaited, self._done = False, True, anyio.Event()
            self._wanted.set()

    async def ready(self, plan: Plan) -> None:
        """Raises Unavailable if it is not fit, and what ``late`` raises."""
        if self._is_awaited:
            await self._done.wait()
        is_old = self._clock.elapsed() - self._found_at > FRESH_SECONDS
        if not self._is_awaited and not is_old:  # the start before this one was withdrawn
            return
        if is_old:
            await self._look()
        began = self._clock.elapsed()
        found = await self._examiner.late(plan, self._early)
        self._is_awaited = False
        self._tell(found, self._early_seconds + self._clock.elapsed() - began)
        if reasons := sentences(found.rows, "unfit"):
            raise Unavailable(f"this server is not fit for the job: {'; '.join(reasons)}")

    def _tell(self, found: Checked, seconds: float) -> None:
        """Report what is not fit, if anything."""
        rows = found.rows
        verdict = verdict_of(rows)
        if verdict != "fit":
            told = sentences(rows, "unfit"), sentences(rows, "warning"), sentences(rows, "unknown")
            self._report(ServerChecked(verdict, *told, round(seconds, 3), found.output))

    async def must_end(self, life: Life) -> Fault:
        """Never: it has no reason to."""
        self._is_due = True
        return await super().must_end(life)
