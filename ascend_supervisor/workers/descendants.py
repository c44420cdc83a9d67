"""The descendants of a group's processes, in whatever session; a launcher's workers are some."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from ascend_supervisor.processes.children import Children
from ascend_supervisor.processes.descriptors import LOOK_SECONDS, only_waits
from ascend_supervisor.processes.ownership import Known, Ownership
from ascend_supervisor.processes.pid import Pid
from ascend_supervisor.processes.proc import description, stat
from ascend_supervisor.scarcity import NoThread
from ascend_supervisor.tasks.threads import Call, aside
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
