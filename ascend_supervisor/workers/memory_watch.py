"""Whether the kernel has killed processes of this generation because memory ran out, and why."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from ascend_supervisor.processes import proc
from ascend_supervisor.processes.kernel import CgroupMemory
from ascend_supervisor.scarcity import MemoryShortage
from ascend_supervisor.tasks.clock import Clock
from ascend_supervisor.workers.process import Process

RECENT_SECONDS = 2.5
"""A kill that was counted since a look which is older may be that of another process."""
MOST_OTHERS = 3


class MemoryWatch:
    """The counter of OOM kills does not say who was killed: only when it has risen, if one looks.

    ``read`` is what our memory cgroup says. ``look`` is called once a second while ranks write:
    while they are silent, nothing is read.
    """

    def __init__(
        self, read: Callable[[], CgroupMemory | None], clock: Clock, processes: Sequence[Process]
    ) -> None:
        self._read = read
        self._clock = clock
        self._processes = processes
        self._before = read()
        self._seen = self._before
        self._seen_at = clock.now()

    def look(self) -> None:
        self._seen, self._seen_at = self._read(), self._clock.now()

    def has_killed(self) -> bool | None:
        """Whether the process that SIGKILL has just ended was killed for its memory.

        None if it cannot be told from a kill before that, or is unknown.
        """
        now = self._read()
        if now is None or self._seen is None:
            return None
        if now.kills <= self._seen.kills:
            return False
        return True if self._clock.now() - self._seen_at <= RECENT_SECONDS else None

    def kills(self) -> tuple[int, int] | None:
        """The counter when the generation began, and now, if it rose."""
        now, before = self._read(), self._before
        is_risen = now is not None and before is not None and now.kills > before.kills
        return (before.kills, now.kills) if now and before and is_risen else None

    def shortage(self, process: Process, *, is_victim: bool) -> str | None:
        """What to know of the memory that ran out in this generation; None if it did not.

        ``process`` has just ended; ``is_victim``: it was killed for its memory, or perhaps was.
        """
        now, before = self._read(), self._before
        if now is None or before is None or now.kills <= before.kills:
            return None
        others: tuple[tuple[str, int], ...] = ()
        with suppress(OSError):
            owners = {one.pid: one.spec.name for one in self._processes if one is not process}
            others = tuple(largest(proc.residents(), owners))[:MOST_OTHERS]
        return MemoryShortage(
            limit=now.limit,
            is_limit=now.limit is not None and now.at_limit > before.at_limit,
            machine=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
            had=process.peak_memory if is_victim else None,
            others=others,
        ).sentence


def largest(
    residents: Iterable[proc.Resident], owners: Mapping[int, str]
) -> Iterable[tuple[str, int]]:
    """Names and sizes of the processes that hold most memory; ``owners`` are ranks by pid."""
    found = {one.pid: one for one in residents}
    for one in sorted(found.values(), key=lambda one: -one.size):
        above: proc.Resident | None = one
        while above is not None and above.pid not in owners:
            above = found.get(above.parent)
        name = f"{one.name} ({one.pid})"
        if above is one:
            name = owners[one.pid]
        elif above is not None:
            name += f" of {owners[above.pid]}"
        yield name, one.size
