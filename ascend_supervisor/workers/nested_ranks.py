"""Ranks that start ranks of their own: then the command is a launcher."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ascend_supervisor.processes import proc
from ascend_supervisor.processes.children import Children
from ascend_supervisor.processes.secrets import masked_words
from ascend_supervisor.tasks.clock import Clock
from ascend_supervisor.untrusted_text import printable
from ascend_supervisor.workers.process import Process

YOUNG_SECONDS = 3600.0
"""Ranks that start ranks fail early, at the latest when HCCL gives up (HCCL_CONNECT_TIMEOUT)."""
EARLY_LOOKS = (1.0, 3.0, 9.0)
"""Seconds after the start: a launcher may end only after its ranks.

They see ranks that live for a second and for twice the time that it took to start them.
"""
MOST_PROCESSES = 2048
LOOK_SECONDS = 0.25
"""Where a process does not answer, it takes a second more."""
PLACES = (b"RANK", b"LOCAL_RANK", b"RANK_ID", b"OMPI_COMM_WORLD_RANK", b"PMI_RANK", b"SLURM_PROCID")
"""The variables that launchers set, for each rank another value."""


class NestedRanks:
    """What was seen of them below ``processes``, which may grow."""

    def __init__(self, processes: Sequence[Process], children: Children, clock: Clock) -> None:
        self._seen = ""
        self._processes = processes
        self._children = children
        self._clock = clock
        self._began = clock.now()

    @property
    def sentence(self) -> str:
        """What was seen, and what to do; empty if nothing was, or if all that is long ago."""
        return self._seen if self._is_young else ""

    @property
    def _is_young(self) -> bool:
        return self._clock.now() - self._began <= YOUNG_SECONDS

    async def look_early(self) -> None:
        """To be called when all have started."""
        for seconds in EARLY_LOOKS:
            await self._clock.sleep(self._began + seconds - self._clock.now())
            self.look()

    def look(self) -> None:
        """Look before anything is told to stop; takes milliseconds, at most 1.5 s."""
        ranks = {one.pid: one for one in self._processes if one.spec.rank is not None}
        if self._seen or not ranks or not self._is_young:
            return
        with suppress(OSError), self._children.spare_descriptor():
            found = starting_ranks(proc.descendants(os.getpid())[:MOST_PROCESSES], ranks)
            self._seen = _sentence(ranks[min(found)]) if found else ""


def starting_ranks(pids: Sequence[int], ranks: Collection[int], root: Path = proc.PROC) -> set[int]:
    """Those of ``ranks`` below which several others have started, as their environments say.

    What a rank starts inherits its place: a launcher gives each process another one. A program may
    have overwritten the first variables of its own (setproctitle does), so one that is missing says
    nothing. An orphan is known by its session. After LOOK_SECONDS no environment is read any more.
    Raises OSError at EMFILE and the like.
    """
    until = time.monotonic() + LOOK_SECONDS
    stats = {pid: found for pid in pids if (found := proc.stat(pid, root)) is not None}
    values: dict[tuple[int, bytes], set[bytes]] = {}
    for pid in stats.keys() - {*ranks}:
        if time.monotonic() >= until:
            break
        is_readable = stats[pid].state != "D"  # else the answer may take a second
        owner = _owner(pid, stats, ranks) if is_readable else None
        if owner is None:
            continue
        for name, value in _place(pid, root).items():
            values.setdefault((owner, name), set()).add(value)
    return {owner for (owner, _), several in values.items() if len(several) > 1}


def _owner(pid: int, stats: Mapping[int, proc.Stat], ranks: Collection[int]) -> int | None:
    """The rank in whose session it is, or one of its ancestors."""
    while (found := stats.get(pid)) is not None:
        if found.session in ranks:
            return found.session
        pid = found.parent
    return None


def _place(pid: int, root: Path) -> Mapping[bytes, bytes]:
    environ = proc.environ(pid, root)
    return {name: environ[name] for name in PLACES if name in environ}


def _sentence(process: Process) -> str:
    command = printable(" ".join(masked_words(process.spec.argv)[:2]))
    return (
        f"{process.spec.name} has started ranks itself, so the command is a launcher, and every "
        f"rank here runs it: start it once, with --method once -- {command} ..."
    )
