"""Monotonic time as an argument, so that what waits for seconds can be tested without them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import anyio

TICK_SECONDS = 1.0
"""Whoever measures with RunningTime asks it at least this often."""


class Clock(Protocol):
    def now(self) -> float:
        """Monotonic seconds."""

    async def sleep(self, seconds: float) -> None: ...


class MonotonicClock:
    """The kernel's monotonic clock: setting the wall clock does not move it."""

    def now(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


class RunningTime:
    """Seconds in which this process ran, as ``clock`` gives them.

    While it is stopped (SIGSTOP, a frozen cgroup, a paused container) nothing else may be blamed
    for the time that passes. Only a gap between two questions tells of that: it counts as one tick
    at most. To be asked by one thread at a time.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._asked = clock()
        self._ran = 0.0

    def now(self) -> float:
        """Seconds since this was made."""
        moment = self._clock()
        self._ran += min(moment - self._asked, TICK_SECONDS)
        self._asked = moment
        return self._ran
