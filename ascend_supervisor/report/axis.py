"""Moments as places on a line, in percent of its width; pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ascend_supervisor.events.words import duration

_STEPS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 21600, 43200)
_DAY = 86400
_MOST_TICKS = 6
"""So that their texts do not meet on a phone."""
SECOND = 1_000_000


class Axis(NamedTuple):
    """From one moment to a later one, in microseconds."""

    begin: int
    end: int

    @property
    def length(self) -> int:
        return max(self.end - self.begin, SECOND)

    def place(self, at: int) -> float:
        """In percent."""
        return round(100 * min(max(at - self.begin, 0), self.length) / self.length, 2)

    def ticks(self) -> Iterator[tuple[float, str]]:
        """Places, and how long after the beginning they are."""
        seconds = self.length // SECOND
        step = next((one for one in _STEPS if seconds / one <= _MOST_TICKS), 0)
        step = step or _DAY * -(-seconds // (_DAY * _MOST_TICKS))
        for at in range(0, seconds + 1, step):
            yield self.place(self.begin + at * SECOND), duration(at)
