"""Whose message it is: from the pid of its sender to a rank, as /proc shows it now.

A sender belongs to a process of a generation by its session or its ancestors.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial

from msgspec import Struct

from ascend_supervisor.life import Life, Living
from ascend_supervisor.processes import proc
from ascend_supervisor.processes.ownership import Mark
from ascend_supervisor.processes.pid import Pid
from ascend_supervisor.tasks.threads import aside

UNNUMBERED = 0
"""Stands for a command that starts ranks nobody has told us of."""
LONGEST_NUMBER = 9
"""Digits; a rank with more does not exist."""


class Ancestor(Struct, frozen=True):
    """A process of a sender's line: the sender itself, its parent, and so on."""

    pid: int
    session: int


class Lineage(Struct, frozen=True):
    """``line`` begins with the sender. ``leads_away`` is true if no process in it is below us."""

    line: tuple[Ancestor, ...]
    leads_away: bool


class OfRank(Struct, frozen=True):
    """The sender is this rank, or descends from it."""

    rank: int


class OfLauncher(Struct, frozen=True):
    """It is below a process that starts ranks: its variables say which one it belongs to.

    ``otherwise`` is the rank if they name none: that of a command that starts only one.
    """

    otherwise: int | None = None


class Orphan(Struct, frozen=True):
    """Its ancestors have ended: it is ours if it has our mark, and its variables name the rank."""


class Stranger(Struct, frozen=True):
    """No rank, and nothing that a rank has started."""


Kinship = OfRank | OfLauncher | Orphan | Stranger


def kinship(lineage: Lineage, life: Life) -> Kinship:
    """The nearest ancestor decides. What an ended process has left belongs to nobody."""
    living = [process for process in life.processes if not process.activity.has_ended]
    workers = {pid: rank for one in living for pid, rank in one.ranks_of_workers.items()}
    started = {one.pid: one for one in living}
    for ancestor in lineage.line:
        for number in (ancestor.pid, ancestor.session):
            if number in workers:
                return OfRank(workers[number])
            if number in started:
                return _of_process(started[number], life.plan.start.local_ranks)
    return Stranger() if lineage.leads_away else Orphan()


def _of_process(process: Living, ranks: Sequence[int]) -> Kinship:
    spec = process.spec
    if spec.rank is not None:
        return OfRank(spec.rank)
    if not spec.significant:
        return Stranger()
    if not spec.leads_ranks or len(ranks) > 1:
        return OfLauncher()
    return OfLauncher(ranks[0] if ranks else UNNUMBERED)


def rank_in(
    environ: Mapping[bytes, bytes],
    names: Sequence[bytes],
    ranks: Sequence[int],
    otherwise: int | None = None,
) -> int | None:
    """The rank that the variables of a process name, if it is one of ``ranks`` (empty: unknown).

    ``otherwise`` if they name none.
    """
    told = next((environ[name] for name in names if environ.get(name)), None)
    if told is None:
        return otherwise
    if not told.isdigit() or len(told) > LONGEST_NUMBER:
        return None
    return int(told) if not ranks or int(told) in ranks else None


MOST_ANCESTORS = 64
MOST_REMEMBERED = 1024


class Senders:
    """The senders of one generation; ``names`` are the variables that may hold a rank.

    Whose process a sender is does not change, so it is looked for once.
    """

    def __init__(self, life: Life, mark: Mark, names: Sequence[bytes]) -> None:
        self._life = life
        self._mark = mark
        self._names = names
        self._known: dict[Pid, int] = {}

    async def rank_of(self, number: int) -> int | None:
        """The rank that the process is, or descends from; None for others, and if it is gone.

        Raises OSError at EMFILE and the like.
        """
        sender = Pid.of(number)
        if sender is None:
            return None
        if sender in self._known:
            return self._known[sender]
        rank = await self._looked_up(number)
        if rank is not None:
            self._remember(sender, rank)
        return rank

    def _remember(self, sender: Pid, rank: int) -> None:
        if len(self._known) >= MOST_REMEMBERED:  # short-lived clients, such as systemd-notify
            self._known.clear()
        self._known[sender] = rank

    async def _looked_up(self, number: int) -> int | None:
        ranks = self._life.plan.start.local_ranks
        match kinship(lineage(number), self._life):
            case OfRank(rank=rank):
                return rank
            case OfLauncher(otherwise=rank):
                return rank_in(await _environ(number), self._names, ranks, rank)
            case Orphan():
                environ = await _environ(number)
                return rank_in(environ, self._names, ranks) if self._mark.is_on(environ) else None
            case Stranger():
                return None


async def _environ(number: int) -> Mapping[bytes, bytes]:
    """In a thread: a process that is stuck in a driver may not answer for a second."""
    return await aside(partial(proc.environ, number))


def lineage(number: int) -> Lineage:
    """The process and its ancestors; raises OSError at EMFILE and the like."""
    line: list[Ancestor] = []
    while len(line) < MOST_ANCESTORS and (stat := proc.stat(number)):
        line.append(Ancestor(number, stat.session))
        if stat.parent == 0:
            return Lineage(tuple(line), leads_away=True)
        if stat.parent == os.getpid():
            break
        number = stat.parent
    return Lineage(tuple(line), leads_away=False)
