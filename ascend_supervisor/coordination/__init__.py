"""Coordinators decide what all servers of a job do; one file per coordinator."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from ascend_supervisor.life import JobSeen, Start
from ascend_supervisor.outcome import Ended, Fault, Outcome
from ascend_supervisor.restart_policy import Decision, Stop


class Coordinator(Protocol):
    """The servers of a job, as this one sees them; it holds the restart budget.

    ``gather``, ``still`` and ``settle`` may raise a Refusal.
    """

    def joined(self) -> AbstractAsyncContextManager[object]:
        """The others are joined while this is entered, and told farewell on every way out."""

    async def gather(self) -> Start | Stop:
        """Wait until all servers may start a generation; a Stop if no generation follows.

        A start that is withdrawn keeps its number.
        """

    async def still(self, start: Start) -> bool:
        """Whether nobody has withdrawn ``start`` while we got ready for it."""

    async def must_end(self, start: Start) -> Fault:
        """Wait until others want this generation to end; answers at once while that holds."""

    async def announce(self, start: Start, verdict: Outcome, uptime: float) -> None:
        """Tell other servers how it ends here, before our first signal: their ranks fail next.

        ``uptime`` is in seconds.
        """

    async def settle(self, start: Start, ended: Ended) -> Decision:
        """What all servers do next; nothing of ours runs any more. May wait for others."""

    def seen(self) -> JobSeen | None:
        """All servers, as they were seen last; asks nobody.

        None if this server decides alone, or has not joined the others yet.
        """

    def end_wait(self) -> bool:
        """End the wait for a new rank table, as an operator wants; returns whether there is one."""
