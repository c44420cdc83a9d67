"""What is drawn of a job: places on an axis of time, rows of servers, a curve, and flags; pure.

It is no more than can be seen, and than a page can hold. A text covers no other text, and no line.
"""

from __future__ import annotations

import sys
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from msgspec import Struct

from ascend_supervisor.phrases import duration
from ascend_supervisor.report.failures import ReportedFailure
from ascend_supervisor.report.servers import (
    TOGETHER,
    DrawnBar,
    DrawnKind,
    RankLife,
    ReportedServer,
)
from ascend_supervisor.report.timeline import StepAt

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


MOST_BARS = 12_000
"""On one page: a bar takes about 150 bytes."""
FINEST, MOST_LANES = 1000, 3
FIRST_SERVERS, MOST_SERVERS = 8, 12
"""So many are shown at once, if there are more than the second number."""


def ordered(
    servers: Sequence[ReportedServer], failures: Sequence[ReportedFailure]
) -> tuple[ReportedServer, ...]:
    """Those on which something failed first come first: that of the last failure, then by time."""
    failed = (one.first.host for one in (*failures[-1:], *failures))
    order = {host: place for place, host in enumerate(dict.fromkeys(failed))}
    return tuple(sorted(servers, key=lambda one: (order.get(one.host, len(order)), one.host)))


def halves(
    servers: Sequence[ReportedServer],
) -> tuple[Sequence[ReportedServer], Sequence[ReportedServer]]:
    """Those that are shown at once, and the others."""
    first = len(servers) if len(servers) <= MOST_SERVERS else FIRST_SERVERS
    return servers[:first], servers[first:]


def finest(axis: Axis, servers: int) -> int:
    """The shortest bar that is drawn, in microseconds."""
    return axis.length // max(min(FINEST, MOST_BARS // max(servers, 1)), 1)


def drawn(bars: Sequence[DrawnBar], shortest: int) -> Iterator[DrawnBar]:
    """The same bars; some that are too short to be seen are one, of the kind of most of it."""
    short: list[DrawnBar] = []
    for bar in bars:
        if bar.end - bar.begin >= shortest:
            yield from _one(short)
            short = []
            yield bar
        else:
            if short and bar.end - short[0].begin > shortest:
                yield from _one(short)
                short = []
            short.append(bar)
    yield from _one(short)


def _one(bars: Sequence[DrawnBar]) -> Iterator[DrawnBar]:
    if not bars:
        return
    spent: dict[DrawnKind, int] = {}
    for bar in bars:
        spent[bar.kind] = spent.get(bar.kind, 0) + bar.end - bar.begin
    kind = max(spent, key=lambda one: spent[one])
    yield DrawnBar(kind, bars[0].begin, bars[-1].end, bars[0].generation)


def lanes(server: ReportedServer, shortest: int) -> list[list[RankLife]]:
    """The lives of its ranks where not all of a generation lived alike: the first to fail first.

    Those that ended together with it are not told: so do all.
    """
    generations: dict[int | None, list[RankLife]] = {}
    for life in server.lives:
        if life.end - life.begin >= shortest or life.failed:
            generations.setdefault(life.generation, []).append(life)
    found: list[list[RankLife]] = []
    for lives in generations.values():
        if len(lives) == 1 and not lives[0].failed:
            continue
        failed = min((life.end for life in lives if life.failed), default=sys.maxsize)
        told = [life for life in lives if life.failed or abs(life.end - failed) > TOGETHER]
        told.sort(key=lambda life: (not life.failed, -len(life.ranks)))
        for lane, life in enumerate(told[:MOST_LANES]):
            if lane == len(found):
                found.append([])
            found[lane].append(life)
    return found


MOST_POINTS, MOST_MARKS = 500, 100


class Curve(Struct, frozen=True):
    """Lines from one level to the next, saved levels, and when generations began to train."""

    lines: tuple[tuple[StepAt, StepAt], ...]
    checkpoints: tuple[StepAt, ...]
    starts: tuple[int, ...]
    most: int

    def height(self, step: int, height: int) -> float:
        """How far below the top of a picture so high."""
        return round(height * (1 - min(step, self.most) / self.most), 1)


def curve(servers: Sequence[ReportedServer], axis: Axis, steps: int | None) -> Curve | None:
    """That of the server that has told most; None if none has told steps."""
    told = max(servers, key=lambda one: len(one.levels), default=None)
    if told is None or not told.levels:
        return None
    furthest = max(level.step for level in told.levels)
    first = {bar.generation: bar.begin for bar in told.bars[::-1] if bar.kind == "start"}
    starts = tuple(sorted(first.values()))
    saved = max((one.checkpoints for one in servers), key=len)
    lives = groupby(_with_saved(told.levels, saved), lambda level: bisect_right(starts, level.at))
    points = ([*_thinned(life, axis.length // MOST_POINTS)] for _, life in lives)
    return Curve(
        tuple(line for life in points for line in pairwise(life)),
        tuple(_thinned(saved, axis.length // MOST_MARKS)),
        starts,
        max(steps or 0, furthest, 1),
    )


def _with_saved(levels: Sequence[StepAt], saved: Sequence[StepAt]) -> Iterator[StepAt]:
    """Both by time; without checkpoints of a step that was passed before."""
    only_saved = {*saved} - {*levels}
    before = None
    for level in sorted([*levels, *only_saved], key=lambda one: one.at):
        if level not in only_saved or before is None or before.step <= level.step:
            yield level
            before = level


def _thinned(levels: Iterable[StepAt], shortest: int) -> Iterator[StepAt]:
    """Without those that come too soon after one that is kept; the last is kept."""
    kept: StepAt | None = None
    last: StepAt | None = None
    for level in levels:
        last = level
        if kept is None or level.at - kept.at >= shortest:
            yield level
            kept = level
    if last is not None and last is not kept:
        yield last


PHONE = 340
"""Pixels that a phone has for a chart; a wider one only has more room."""
_LETTER, _WIDE_LETTER, _GAP = 7.0, 13.0, 12.0
"""Pixels at 12 px, bold: a little more than most fonts need."""
MOST_FLAG_LANES, NO_LANE = 6, -1


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
        lanes = (wish._replace(lane=lane) for lane in range(MOST_FLAG_LANES))
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
