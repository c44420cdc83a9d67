"""Waits for the cluster that an operator may end."""

from __future__ import annotations

from collections.abc import Callable


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
