"""What of a server is drawn: no more than can be seen, and than a page can hold; pure."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from ascend_supervisor.report.axis import Axis
from ascend_supervisor.report.failures import ReportedFailure
from ascend_supervisor.report.servers import (
    TOGETHER,
    DrawnBar,
    DrawnKind,
    RankLife,
    ReportedServer,
)

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
