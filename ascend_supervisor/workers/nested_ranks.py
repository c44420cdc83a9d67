"""Ranks that start ranks of their own: then the command is a launcher."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

from ascend_supervisor.processes import proc
from ascend_supervisor.processes.children import Children
from ascend_supervisor.processes.secrets import masked_words
from ascend_supervisor.tasks.clock import Clock
from ascend_supervisor.untrusted_text import printable
from ascend_supervisor.workers.process import Process

YOUNG_SECONDS = 3600.0
"""Ranks that start ranks fail early, at the latest when HCCL gives up (HCCL_CONNECT_TIMEOUT)."""
MOST_PROCESSES = 2048
PLACES = (b"RANK", b"LOCAL_RANK", b"RANK_ID", b"OMPI_COMM_WORLD_RANK", b"PMI_RANK", b"SLURM_PROCID")
"""The variables that launchers set, for each rank another value."""


class NestedRanks:
    """What was seen of them below ``processes``, which may grow."""

    def __init__(self, processes: Sequence[Process], children: Children, clock: Clock) -> None:
        self.sentence = ""
        """What was seen, and what to do; empty if nothing was."""
        self._processes = processes
        self._children = children
        self._clock = clock
        self._began = clock.now()

    def look(self) -> None:
        """Look before anything is told to stop; takes milliseconds."""
        ranks = {one.pid: one for one in self._processes if one.spec.rank is not None}
        if self.sentence or not ranks or self._clock.now() - self._began > YOUNG_SECONDS:
            return
        with suppress(OSError), self._children.spare_descriptor():
            found = starting_ranks(proc.descendants(os.getpid())[:MOST_PROCESSES], ranks)
            self.sentence = _sentence(ranks[min(found)]) if found else ""


def starting_ranks(pids: Sequence[int], ranks: Collection[int]) -> set[int]:
    """Those of ``ranks`` below which several others have started, as their environments say.

    What a rank starts inherits its place: a launcher gives each process another one. An orphan is
    known by its session. Raises OSError at EMFILE and the like.
    """
    stats = {pid: found for pid in pids if (found := proc.stat(pid)) is not None}
    places: dict[int, set[tuple[bytes | None, ...]]] = {}
    for pid in stats.keys() - {*ranks}:
        is_readable = stats[pid].state != "D"  # else the answer may take a second
        owner = _owner(pid, stats, ranks) if is_readable else None
        if owner is not None and any(place := _place(pid)):
            places.setdefault(owner, set()).add(place)
    return {owner for owner, several in places.items() if len(several) > 1}


def _owner(pid: int, stats: Mapping[int, proc.Stat], ranks: Collection[int]) -> int | None:
    """The rank in whose session it is, or one of its ancestors."""
    while (found := stats.get(pid)) is not None:
        if found.session in ranks:
            return found.session
        pid = found.parent
    return None


def _place(pid: int) -> tuple[bytes | None, ...]:
    environ = proc.environ(pid)
    return tuple(environ.get(name) for name in PLACES)


def _sentence(process: Process) -> str:
    command = printable(" ".join(masked_words(process.spec.argv)[:2]))
    return (
        f"{process.spec.name} has started ranks itself, so the command is a launcher, and every "
        f"rank here runs it: start it once, with --method once -- {command} ..."
    )
