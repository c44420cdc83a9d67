"""Moments with a text, placed so that no text covers another one or its line; pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

from ascend_supervisor.report.axis import Axis

PHONE = 340
"""Pixels that a phone has for a chart; a wider one only has more room."""
_LETTER, _WIDE_LETTER, _GAP = 7.0, 13.0, 12.0
"""Pixels at 12 px, bold: a little more than most fonts need."""
MOST_LANES, NO_LANE = 6, -1


class Flag(NamedTuple):
    """A moment, in microseconds, and what is said of it."""

    at: int
    text: str


class PlacedFlag(NamedTuple):
    """A line down to a lane below the bars, and a text at its end; in percent of the width.

    The text goes from ``begin`` to ``end``: right of the line, or left of it.
    """

    place: float
    begin: float
    end: float
    text: str
    lane: int = 0

    @property
    def is_left(self) -> bool:
        return self.begin < self.place


def placed(flags: Iterable[Flag], axis: Axis, width: int = PHONE) -> tuple[PlacedFlag, ...]:
    """Each in the first lane where it has room; where no lane has any, without its text.

    A line must pass no text, so those whose texts stand left of it come from left to right, then
    the others from right to left.
    """
    found: list[PlacedFlag] = []
    for wish in sorted((_wish(flag, axis, width) for flag in flags), key=_order):
        lanes = (wish._replace(lane=lane) for lane in range(MOST_LANES))
        room = next((one for one in lanes if not any(_meet(one, other) for other in found)), None)
        found.append(room or PlacedFlag(wish.place, wish.place, wish.place, "", NO_LANE))
    return tuple(sorted(found))


def _wish(flag: Flag, axis: Axis, width: int) -> PlacedFlag:
    place, size = axis.place(flag.at), 100 * _pixels(flag.text) / width
    begin = place - size if place + size > 100 else place  # noqa: PLR2004
    return PlacedFlag(place, begin, begin + size, flag.text)


def _order(wish: PlacedFlag) -> tuple[bool, float]:
    return not wish.is_left, wish.place if wish.is_left else -wish.place


def _meet(one: PlacedFlag, other: PlacedFlag) -> bool:
    """Whether a text of the two covers the text of the other, or its line."""
    if one.lane == other.lane:
        return one.begin < other.end and other.begin < one.end
    upper, lower = sorted((one, other), key=lambda flag: flag.lane)
    return upper.begin < lower.place < upper.end


def _pixels(text: str) -> float:
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return wide * _WIDE_LETTER + (len(text) - wide) * _LETTER + _GAP
