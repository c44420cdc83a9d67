"""What a coordinator offers to operators, through the control socket.

They may end a wait for the cluster.
"""

from __future__ import annotations

from collections.abc import Callable

from ascend_supervisor.coordination.whole_job import WholeJob


def _no_wait() -> bool:
    return False


class WaitByHand:
    """The wait of a coordinator, as requests of operators find it."""

    def __init__(self) -> None:
        self._end: Callable[[], bool] = _no_wait

    def ended_by(self, end: Callable[[], bool]) -> None:
        """``end`` ends the wait, and returns whether there was one."""
        self._end = end

    def end(self) -> bool:
        """End the wait for a new rank table; returns whether there was one."""
        return self._end()


class ForOperators:
    """A wait that they may end, and the servers of the job as they may see them."""

    def __init__(self) -> None:
        self.wait = WaitByHand()
        self.whole_job = WholeJob()
