"""Whose message it is: from the pid of its sender to a rank, as /proc shows it now."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial

from ascend_supervisor.life import Life
from ascend_supervisor.notify.kinship import (
    Ancestor,
    Lineage,
    OfLauncher,
    OfRank,
    Orphan,
    Stranger,
    kinship,
    rank_in,
)
from ascend_supervisor.processes import proc
from ascend_supervisor.processes.ownership import Mark
from ascend_supervisor.processes.pid import Pid
from ascend_supervisor.tasks.threads import aside

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
