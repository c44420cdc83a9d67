"""Coordinators decide what all servers of a job do; one file per coordinator."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from ascend_supervisor.life import Start
from ascend_supervisor.outcome import Ended, Fault, Outcome
from ascend_supervisor.restart_policy import Decision, Stop

if TYPE_CHECKING:
    from typing_extensions import Self  # typing has it from Python 3.11 on


class Coordinator(Protocol):
    """The servers of a job, as this one sees them: enter it to join, exit it to leave.

    It holds the restart budget. ``gather``, ``still`` and ``settle`` may raise a Refusal.
    """

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

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
