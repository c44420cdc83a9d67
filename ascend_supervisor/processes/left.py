"""Processes that do not end: when to tell of them, and for how long they are waited for."""

from __future__ import annotations

from collections.abc import Callable

import anyio
from msgspec import Struct

from ascend_supervisor.tasks.clock import SWEEP


class Left(Struct, frozen=True):
    """Descriptions of processes that have not ended after ``waited`` of ``limit`` seconds.

    Without any, the wait that was told is over.
    """

    descriptions: tuple[str, ...]
    waited: float
    limit: float


TellLeft = Callable[[Left], None]


class LeftReports:
    """Tells of processes that do not end within ``seconds``, at growing intervals."""

    def __init__(self, seconds: float, tell_left: TellLeft) -> None:
        self._seconds = seconds
        self._tell_left = tell_left
        self._began = anyio.current_time()
        self._interval = SWEEP
        self._next_after = SWEEP.seconds

    @property
    def _waited(self) -> float:
        return anyio.current_time() - self._began

    @property
    def is_due(self) -> bool:
        return self._waited > self._next_after

    @property
    def is_over(self) -> bool:
        return self._waited > self._seconds

    def tell(self, left: tuple[str, ...]) -> None:
        self._interval = self._interval.longer
        self._next_after += self._interval.seconds
        self._tell_left(Left(left, self._waited, self._seconds))

    def end(self) -> None:
        """To be called when nobody waits any more."""
        if self._interval != SWEEP:
            self._tell_left(Left((), self._waited, self._seconds))
