"""Monotonic time, without the time while this process was stopped.

While it is stopped (SIGSTOP, a frozen cgroup, a paused container), its ranks usually are too.
The clock is an argument, so that code that waits can be tested without waiting.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable
from typing import Protocol

import anyio

TICK_SECONDS = 0.5
"""RunningTime must be asked at least this often."""
LOOK_SECONDS = TICK_SECONDS / 2
"""How often the event loop asks: twice per tick, so that a small delay is not a gap."""


class Clock(Protocol):
    def now(self) -> float:
        """Monotonic seconds while we ran: for waits and time limits."""

    def elapsed(self) -> float:
        """Monotonic seconds, including those while we were stopped: for reported durations."""

    async def sleep(self, seconds: float) -> None: ...


class MonotonicClock:
    """The time of the event loop, and the kernel's; changes of the wall clock affect neither."""

    def now(self) -> float:
        return anyio.current_time()

    def elapsed(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


class RunningTime:
    """Seconds while this process ran, measured with ``clock``.

    Only a gap between two calls shows that it was stopped: the gap counts as one tick at most. Only
    one thread at a time may call it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._asked = self._began = clock()

    def now(self) -> float:
        """Seconds since this was made."""
        moment = self._clock()
        self._began += max(0.0, moment - self._asked - TICK_SECONDS)
        self._asked = moment
        return moment - self._began


class RunningLoop(asyncio.SelectorEventLoop):
    """An event loop whose timers and deadlines follow RunningTime.

    No timer fires early. After a gap, timers fire that much later.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._running = RunningTime(clock)
        super().__init__(_Watchful())

    def time(self) -> float:
        return self._running.now()


class _Watchful(selectors.EpollSelector):
    """Makes the loop ask for the time at least every LOOK_SECONDS."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(LOOK_SECONDS if timeout is None else min(timeout, LOOK_SECONDS))
