"""The descendants of a group's processes, in whatever session; some are ranks."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ascend_supervisor.processes import proc
from ascend_supervisor.processes.children import Children
from ascend_supervisor.processes.descriptors import LOOK_SECONDS, only_waits
from ascend_supervisor.processes.ownership import Known, Ownership
from ascend_supervisor.processes.pid import Pid
from ascend_supervisor.processes.proc import description, stat
from ascend_supervisor.processes.secrets import masked_words
from ascend_supervisor.scarcity import NoThread
from ascend_supervisor.tasks.clock import Clock
from ascend_supervisor.tasks.threads import Call, aside
from ascend_supervisor.untrusted_text import printable
from ascend_supervisor.workers.process import Process
from ascend_supervisor.workers.runtime import Runtime


class Kin:
    """Those of ``processes``, which may grow. What cannot be read (EMFILE) is seen later."""

    def __init__(
        self, processes: Sequence[Process], children: Children, ownership: Ownership
    ) -> None:
        self._processes = processes
        self._children = children
        self._ownership = ownership
        self._seen: set[Pid] = set()

    @property
    def known(self) -> Known:
        """The processes that were started, those seen below them, their pipes and groups."""
        started = {pid for process in self._processes if (pid := process.identity) is not None}
        pipes = {process.output.pipe for process in self._processes}
        groups = frozenset[int]().union(*(process.groups for process in self._processes))
        return Known(frozenset(started | self._seen), frozenset(pipes), groups)

    def note(self) -> None:
        """Note descendants while their parents are alive: an orphan may not show whose it is."""
        if self._ownership.takes_in_strangers:
            with suppress(OSError), self._children.spare_descriptor():
                self._seen.update(self._descendants())

    def take_in_ranks(self) -> None:
        """Find the ranks of a command that leads them.

        A plan has at most one such command, and nothing beside it, so all that is ours is its kin.
        """
        for process in self._processes:
            if process.spec.leads_ranks:
                with suppress(OSError), self._children.spare_descriptor():
                    process.take_in(self._descendants())

    def waiting_elsewhere(self) -> set[Pid]:
        """Those in none of the groups that are signalled, and that may only wait for the others.

        Raises OSError at EMFILE and the like.
        """
        groups = self.known.groups
        until = time.monotonic() + LOOK_SECONDS
        escaped = [pid for pid in self._descendants() if _group(pid) not in {None, *groups}]
        return {pid for pid in escaped if only_waits(pid.number, until)}

    def _descendants(self) -> list[Pid]:
        """All that is ours, without py-spy and the like; raises OSError at EMFILE and the like.

        Such a program leads a session of its own, as everything does that we start.
        """
        ours = self._ownership.ours(self.known)
        programs = self._children.started - {process.pid for process in self._processes}
        return [pid for pid in ours if not programs or _session(pid) not in programs]


def _session(pid: Pid) -> int | None:
    """None if it has ended; raises OSError at EMFILE and the like."""
    found = stat(pid.number)
    return None if found is None else found.session


def _group(pid: Pid) -> int | None:
    """The same for its process group."""
    found = stat(pid.number)
    return None if found is None else found.group


CENSUS_SECONDS = 0.1
"""How often to look for workers, until all of them were seen."""


class LaunchedWorkers:
    """The workers of one launcher, ``process``; ``ranks`` maps their pids to ranks."""

    def __init__(self, process: Process, runtime: Runtime) -> None:
        self.ranks: dict[int, int] = {}
        self._process = process
        self._runtime = runtime

    async def take_the_census(self) -> None:
        """Note the workers' ranks: for a dead worker, its launcher may report only the pid."""
        watched: set[Pid] = set()
        while self._process.status is None and len(self.ranks) < self._process.spec.workers:
            with suppress(NoThread):
                self.ranks |= await Call(self._process.ranks_of_workers).result()
            for worker in self._process.workers() - watched:
                watched.add(worker)
                self._runtime.guardian.watch_worker(worker)
            await self._runtime.clock.sleep(CENSUS_SECONDS)


async def remaining(
    processes: Sequence[Process], ranks: Mapping[int, int], children: Children
) -> dict[int, str]:
    """What still runs, by pid, each after the rank that it belongs to; zombies too.

    ``ranks`` are those of launchers' workers, by pid.
    """
    owners = {one.pid: one.spec.name for one in processes if one.status is None}
    with suppress(OSError), children.spare_descriptor():
        for one in processes:
            owners |= {pid.number: one.spec.name for pid in one.left_behind}
    owners |= {pid: f"rank {ranks[pid]}" for pid in owners.keys() & ranks.keys()}
    return await aside(
        lambda: {pid: f"{owners[pid]}: {description(pid)}" for pid in owners if stat(pid)}
    )


async def left_by_command(processes: Sequence[Process], children: Children) -> tuple[str, ...]:
    """What lives although the command that leads ranks has ended, and reads no rest of a pipe."""
    with suppress(OSError), children.spare_descriptor():
        ended = [one for one in processes if one.spec.leads_ranks and one.status is not None]
        behind = [pid.number for process in ended for pid in process.left_behind]
        until = time.monotonic() + LOOK_SECONDS
        left = [number for number in behind if not only_waits(number, until)]
        return await aside(lambda: tuple(map(description, left)))
    return ()


YOUNG_SECONDS = 3600.0
"""Ranks that start ranks fail early, at the latest when HCCL gives up (HCCL_CONNECT_TIMEOUT)."""
EARLY_LOOKS = (1.0, 3.0, 9.0)
"""Seconds after the start: a launcher may end only after its ranks.

They see ranks that live for a second and for twice the time that it took to start them.
"""
MOST_PROCESSES = 2048
ENVIRONMENT_SECONDS = 0.25
"""Where a process does not answer, it takes a second more."""
PLACES = (b"RANK", b"LOCAL_RANK", b"RANK_ID", b"OMPI_COMM_WORLD_RANK", b"PMI_RANK", b"SLURM_PROCID")
"""The variables that launchers set, for each rank another value."""


class NestedRanks:
    """Ranks that ranks of ``processes`` have started: then the command is a launcher."""

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
    nothing. An orphan is known by its session. After ENVIRONMENT_SECONDS no environment is read any
    more. Raises OSError at EMFILE and the like.
    """
    until = time.monotonic() + ENVIRONMENT_SECONDS
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
