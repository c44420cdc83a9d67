"""How far the training was, as a curve that can be drawn; pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise

from msgspec import Struct

from ascend_supervisor.report.axis import Axis
from ascend_supervisor.report.servers import ReportedServer
from ascend_supervisor.report.timeline import StepAt

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
