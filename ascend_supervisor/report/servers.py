"""What each server did, as bars one after the other; pure.

Times are microseconds since the epoch.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, zip_longest
from typing import Literal, get_args

from msgspec import Struct, field

from ascend_supervisor.report import timeline
from ascend_supervisor.report.timeline import Happening, StepAt, Stretch
from ascend_supervisor.report.told import ToldEvent, micros, number
from ascend_supervisor.untrusted_text import printable

DrawnKind = Literal[
    "waiting",
    "start",
    "training",
    "trained_again",
    "stalled",
    "running",
    "stopping",
    "drain",
    "grace",
    "release",
    "restarting",
]
KINDS: tuple[DrawnKind, ...] = get_args(DrawnKind)
"""As the account names them, but for ``running``, of which no step is known, and what a stop is."""
_OF_PHASES: Mapping[str, DrawnKind] = {
    **dict.fromkeys(timeline.WAITS, "waiting"),
    timeline.BEGINNING: "waiting",
    timeline.RELEASE: "release",
    timeline.PAUSE: "restarting",
    timeline.DELAY: "restarting",
    timeline.DRAIN: "drain",
    timeline.GRACE: "grace",
}
_STALLS = {
    "training.stalled": "silent_seconds",
    "training.resumed": "silent_seconds",
    "hang.noticed": "limit_seconds",
}
"""What tells of a stall, and for how long all ranks have stood still; one may stand longer."""
_CATEGORIES: Mapping[DrawnKind, str] = {
    "running": "unknown",
    "drain": "stopping",
    "grace": "stopping",
    "release": "waiting",
}
MOST_NAME = 100
TOGETHER = 1_000_000
LATEST = 1 << 62
"""A moment after all others."""
Stall = tuple[int, int, int | None]
"""From when until when, and of which generation only; None: of any."""


class DrawnBar(Struct, frozen=True):
    """One thing that a server did; ``generation`` only while its ranks ran."""

    kind: DrawnKind
    begin: int
    end: int
    generation: int | None = None


class RankLife(Struct, frozen=True):
    """Ranks of one generation that began and ended together; ``failed``: the first to fail."""

    ranks: tuple[int, ...]
    begin: int
    end: int
    generation: int | None
    failed: bool


class ReportedServer(Struct, frozen=True):
    """What one host did. ``bars`` are in the order of time and do not overlap."""

    host: str
    bars: tuple[DrawnBar, ...] = ()
    lives: tuple[RankLife, ...] = ()
    levels: tuple[StepAt, ...] = ()
    checkpoints: tuple[StepAt, ...] = ()

    @property
    def seconds(self) -> dict[str, float]:
        """How long it did what, by the categories of an account."""
        spent: dict[str, float] = {}
        for bar in self.bars:
            kind = _CATEGORIES.get(bar.kind, bar.kind)
            spent[kind] = spent.get(kind, 0.0) + (bar.end - bar.begin) / 1e6
        return spent


def servers(events: Iterable[ToldEvent]) -> tuple[ReportedServer, ...]:
    """All hosts of these events, by their names."""
    hosts: dict[str, _Host] = {}
    for host, seen in timeline.timeline(events):
        hosts.setdefault(host, _Host()).take(seen)
    named = ((printable(host, MOST_NAME), hosts[host]) for host in sorted(hosts))
    return tuple(one.server(host) for host, one in named)


class _Host(Struct):
    """What was seen on a host."""

    spans: list[Stretch] = field(default_factory=list)
    ranks: list[Stretch] = field(default_factory=list)
    levels: list[StepAt] = field(default_factory=list)
    marks: list[Happening] = field(default_factory=list)

    def take(self, seen: Stretch | Happening | StepAt) -> None:
        match seen:
            case Stretch(track=track, begin=begin, end=end) if track == timeline.SUPERVISOR:
                self.spans += [seen] if begin < end else []
            case Stretch(track=track) if track.number >= timeline.FIRST_RANK:
                self.ranks.append(seen)
            case Happening():
                self.marks.append(seen)
            case StepAt():
                self.levels.append(seen)
            case _:
                pass  # steps are levels, too, and other programs are no ranks

    def server(self, host: str) -> ReportedServer:
        self.spans.sort(key=lambda span: (span.begin, -span.end))
        self.levels.sort(key=_at)
        return ReportedServer(
            host,
            tuple(_flat(self.spans, self.levels, [*_stalls(self.marks)])),
            tuple(_lives(self.ranks)),
            tuple(self.levels),
            tuple(_checkpoints(self.marks)),
        )


def _checkpoints(marks: Iterable[Happening]) -> Iterator[StepAt]:
    for mark in marks:
        step = mark.event.get("step")
        if mark.event["event"] == "checkpoint.saved" and type(step) is int:
            yield StepAt(mark.at, step)


def _flat(
    spans: Sequence[Stretch], levels: Sequence[StepAt], stalls: Sequence[Stall]
) -> Iterator[DrawnBar]:
    """Bars in place of phases: what lies within another one comes instead of that part of it."""
    best, seen, end = -1, 0, spans[0].begin if spans else 0
    for following, span in enumerate(spans, 1):
        later = spans[following].begin if spans[following:] else span.end
        begin, end = max(span.begin, end), max(min(span.end, later), end)
        if span.generation is None:
            bars: Iterable[DrawnBar] = [DrawnBar(_OF_PHASES.get(span.name, "stopping"), begin, end)]
        elif not levels:
            bars = [DrawnBar("running", begin, end, span.generation)]
        else:  # steps go on while a generation is ended
            begins = (one.begin for one in spans[following:] if one.generation is not None)
            first = bisect_left(levels, begin, key=_at)
            last = bisect_left(levels, next(begins, levels[-1].at + 1), key=_at)
            best = max((best, *(one.step for one in levels[seen:first])))
            seen = first
            bars = _trained(levels[first:last], begin, end, best, span.generation)
        yield from (bar for bar in _with_stalls(bars, stalls) if bar.begin < bar.end)


def _trained(
    levels: Sequence[StepAt], begin: int, end: int, best: int, generation: int
) -> tuple[DrawnBar, ...]:
    """A generation: its start, the steps that were trained before, and new ones."""
    first = min(levels[0].at, end) if levels else end
    new = min(_passed(levels, best, end), end)
    return (
        DrawnBar("start", begin, first, generation),
        DrawnBar("trained_again", first, new, generation),
        DrawnBar("training", new, end, generation),
    )


def _passed(levels: Sequence[StepAt], best: int, end: int) -> int:
    """When ``best`` was passed; between two levels steps took all the same time."""
    if levels and levels[0].step > best:
        return levels[0].at
    for one, other in pairwise(levels):
        if one.step <= best < other.step:
            return one.at + (other.at - one.at) * (best - one.step) // (other.step - one.step)
    return end


def _stalls(marks: Iterable[Happening]) -> Iterator[Stall]:
    """From the last sign of life until it was noticed, and until it went on.

    What was told of steps lasts until they go on, or to the end of the generation.
    """
    told = [mark for mark in marks if mark.event["event"] in _STALLS]
    for mark, following in zip_longest(told, told[1:]):
        name = mark.event["event"]
        begin, end, generation = mark.at - micros(mark.event, _STALLS[name]), mark.at, None
        if name == "training.stalled":
            generation = number(mark.event, "generation")
            end = LATEST if following is None else following.at
        yield begin, end, generation


def _with_stalls(bars: Iterable[DrawnBar], stalls: Sequence[Stall]) -> Iterator[DrawnBar]:
    for bar in bars:
        at = bar.begin
        for begin, end, generation in stalls if bar.generation is not None else ():
            if generation in {None, bar.generation} and at < end and begin < bar.end:
                begin, end = max(begin, at), min(end, bar.end)  # noqa: PLW2901
                yield DrawnBar(bar.kind, at, begin, bar.generation)
                yield DrawnBar("stalled", begin, end, bar.generation)
                at = end
        yield DrawnBar(bar.kind, at, bar.end, bar.generation)


def _lives(ranks: Iterable[Stretch]) -> Iterator[RankLife]:
    """Ranks of a generation that began and ended within a second of each other are one."""
    together: list[Stretch] = []
    for span in sorted(ranks, key=_order):
        if together and not _alike(together[0], span):
            yield _life(together)
            together = []
        together.append(span)
    if together:
        yield _life(together)


def _order(span: Stretch) -> tuple[int, bool, int, int]:
    return -1 if span.generation is None else span.generation, _failed(span), span.end, span.begin


def _alike(one: Stretch, other: Stretch) -> bool:
    if (one.generation, _failed(one)) != (other.generation, _failed(other)):
        return False
    return abs(one.begin - other.begin) <= TOGETHER and abs(one.end - other.end) <= TOGETHER


def _life(spans: Sequence[Stretch]) -> RankLife:
    return RankLife(
        tuple(sorted({one.track.number - timeline.FIRST_RANK for one in spans})),
        min(one.begin for one in spans),
        max(one.end for one in spans),
        spans[0].generation,
        _failed(spans[0]),
    )


def _failed(span: Stretch) -> bool:
    return span.told.get("first_failure") is True


def _at(level: StepAt) -> int:
    return level.at
