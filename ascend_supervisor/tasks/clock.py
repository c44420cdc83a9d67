"""Monotonic time, without the time while this process was stopped.

While it is stopped (SIGSTOP, a frozen cgroup, a paused container), its ranks usually are too.
The clock is an argument, so that code that waits can be tested without waiting.
"""

from __future__ import annotations

import asyncio
import errno
import selectors
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import floor
from typing import TYPE_CHECKING, Protocol

import anyio
from msgspec import Struct

from ascend_supervisor.scarcity import NoWatch

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike


TICK_SECONDS = 0.5
"""RunningTime must be asked at least this often, unless it was given another tick."""


class Pace(Struct, frozen=True):
    """How often the event loop reads the clock (``look``), and how much of a longer gap counts.

    Both in seconds. ``tick`` is longer than ``look``, so that a small delay is not a gap.
    """

    look: float
    tick: float


CLOSE = Pace(TICK_SECONDS / 2, TICK_SECONDS)
"""For waits of seconds: of a stop, half a second counts at most."""
SELDOM = Pace(1.0, 1.5)
"""While a generation just runs: a look each second, together with ``whole_second``."""


class Clock(Protocol):
    def now(self) -> float:
        """Monotonic seconds while we ran: for waits and time limits."""

    def elapsed(self) -> float:
        """Monotonic seconds, including those while we were stopped: for reported durations."""

    async def sleep(self, seconds: float) -> None:
        """Not at all if ``seconds`` is negative: the moment that was waited for has passed."""


class MonotonicClock:
    """The time of the event loop, and the kernel's; changes of the wall clock affect neither."""

    def now(self) -> float:
        return anyio.current_time()

    def elapsed(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(max(0.0, seconds))  # anyio 4.16 refuses what is negative


class RunningTime:
    """Seconds while this process ran, measured with ``clock``.

    Only a gap between two calls shows that it was stopped: the gap counts as one tick at most. Only
    one thread at a time may call it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._asked = self._began = clock()
        self._tick = TICK_SECONDS

    def now(self) -> float:
        """Seconds since this was made."""
        moment = self._clock()
        self._began += max(0.0, moment - self._asked - self._tick)
        self._asked = moment
        return moment - self._began

    def expect(self, tick: float) -> None:
        """From now on this is asked at least every ``tick`` seconds."""
        self.now()  # the time up to here is measured with the tick that it was asked with
        self._tick = tick


class RunningLoop(asyncio.SelectorEventLoop):
    """An event loop whose timers and deadlines follow RunningTime.

    No timer fires early. After a gap, timers fire that much later.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._running = RunningTime(clock)
        self._watchful = _Watchful()
        super().__init__(self._watchful)

    def time(self) -> float:
        return self._running.now()

    @contextmanager
    def paced(self, pace: Pace) -> Iterator[None]:
        """Read the clock at this pace meanwhile; afterwards at the one before."""
        before = self._watchful.pace
        self._follow(pace)
        try:
            yield
        finally:
            self._follow(before)

    def _follow(self, pace: Pace) -> None:
        self._running.expect(pace.tick)
        self._watchful.pace = pace


class _Watchful(selectors.EpollSelector):
    """Makes the loop ask for the time as often as its pace says."""

    pace = CLOSE

    def register(
        self, fileobj: FileDescriptorLike, events: int, data: object = None
    ) -> selectors.SelectorKey:
        with _no_watch():
            return super().register(fileobj, events, data)

    def modify(
        self, fileobj: FileDescriptorLike, events: int, data: object = None
    ) -> selectors.SelectorKey:
        with _no_watch():
            return super().modify(fileobj, events, data)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        look = self.pace.look
        return super().select(look if timeout is None else min(timeout, look))


@contextmanager
def _no_watch() -> Iterator[None]:
    """Raise NoWatch where the kernel has no room for it."""
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.ENOMEM}:
            raise NoWatch(error.errno, error.strerror) from error
        raise


@contextmanager
def seldom_looks() -> Iterator[None]:
    """Read the clock once a second meanwhile, to wake up seldom; for long waits only.

    Of a stop, SELDOM.tick seconds count at most. Changes nothing in other loops than RunningLoop.
    """
    loop = asyncio.get_running_loop()
    if not isinstance(loop, RunningLoop):
        yield
        return
    with loop.paced(SELDOM):
        yield


async def whole_second() -> None:
    """Sleep until the next whole second of the loop's time: who does so shares one wake-up."""
    now = anyio.current_time()
    await anyio.sleep(floor(now) + 1 - now)
