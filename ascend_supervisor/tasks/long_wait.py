"""When to tell that a wait goes on (soon at first, then seldom), and how long it lasts; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from typing_extensions import Self


class Intervals(Struct, frozen=True):
    """The first message after ``first`` seconds, the next one ``second`` seconds later.

    Then each interval is twice as long as the one before it, but none is longer than ``most``. A
    new reason is told besides, ``change`` seconds after the last message at the earliest.
    """

    first: float
    second: float
    most: float
    change: float = 0.0

    def __iter__(self) -> Iterator[float]:
        """The seconds before each message."""
        yield self.first
        seconds = self.second
        while True:
            yield seconds
            seconds = min(2 * seconds, self.most)


TABLE = Intervals(0.0, 10.0, 300.0, change=1.0)
CLUSTER = Intervals(0.0, 30.0, 300.0)
SERVERS = Intervals(2.0, 30.0, 300.0)
"""Those that start and end together need no words."""
RELEASE = Intervals(0.0, 10.0, 60.0)
STOP = Intervals(5.0, 10.0, 60.0)
SWEEP = Intervals(3.0, 6.0, 60.0)
"""After SIGKILL: what is left then is stuck in the kernel."""


class LongWait:
    """A wait that begins now; at the end of the block ``tell_end`` is called, if it was ever told.

    ``elapsed`` is the time in seconds; ``tell_end`` gets the seconds that the wait has lasted.
    """

    def __init__(
        self,
        intervals: Intervals,
        elapsed: Callable[[], float],
        tell_end: Callable[[float], object],
    ) -> None:
        self._elapsed = elapsed
        self._tell_end = tell_end
        self._began = elapsed()
        self._change = intervals.change
        self._intervals = iter(intervals)
        self._interval = self._next_at = next(self._intervals)
        self._told_at: float | None = None
        self._reason: object = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._told_at is not None:
            self._tell_end(self.waited)

    @property
    def waited(self) -> float:
        """Seconds so far, to the millisecond."""
        return round(self._elapsed() - self._began, 3)

    @property
    def pause(self) -> float:
        """Seconds until the same reason is to be told again."""
        return max(0.0, self._next_at - self.waited)

    def is_due(self, reason: object = None) -> bool:
        """Whether to tell now that we wait, for this ``reason``."""
        if self._told_at is None or reason == self._reason:
            return self.waited >= self._next_at
        return self.waited >= self._told_at + self._change

    def told(self, reason: object = None) -> float:
        """Note that it is told now; returns ``waited``."""
        waited = self.waited
        if self._told_at is None or reason == self._reason:
            self._interval = next(self._intervals)
        self._reason, self._told_at, self._next_at = reason, waited, waited + self._interval
        return waited
