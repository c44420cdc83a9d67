"""Keeps what is known of the cluster up to date, for the life of the job, and wakes up who waits.

It reports what is seen: a new incident, a table that becomes wrong, and a reset file that cannot be
read or names ranks of another job. The last two end no rank.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import NoReturn

import anyio
from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.cluster.rank_table import FoundTable
from ascend_supervisor.cluster.reset_file import ResetFile
from ascend_supervisor.coordination.followed_cluster.cluster_files import FileLook, look_out
from ascend_supervisor.coordination.followed_cluster.incident import Incident
from ascend_supervisor.coordination.followed_cluster.incident_detection import (
    MOST_NAMED,
    Doubts,
    doubts_after,
    noticed,
    told_now,
)
from ascend_supervisor.coordination.followed_cluster.memory import (
    ClusterMemory,
    CompletedTable,
    Sight,
    judging,
    started,
    with_answered,
    with_table_accepted,
)
from ascend_supervisor.events import Report
from ascend_supervisor.events.cluster import ClusterIncident
from ascend_supervisor.events.supervisor import Diagnostic
from ascend_supervisor.phrases import listed
from ascend_supervisor.tasks.clock import Clock
from ascend_supervisor.tasks.race import every


class ResetDoubts(Struct, frozen=True):
    """The ``reset`` file as it was read last, why it cannot be read now, and what was ``told``.

    ``world_size`` is how many ranks the job had at the last look.
    """

    reset: ResetFile | None = None
    world_size: int = 0
    trouble: str = ""
    told: frozenset[str] = frozenset()


def seen_for_job(
    doubts: ResetDoubts, sight: Sight, world_size: int
) -> tuple[ResetDoubts, Sight, str | None]:
    """What a look has shown of a job with so many ranks (0: not known yet), and what is told now.

    A file that was read before the size was known counts again.
    """
    is_resized = sight.reset_is_there and world_size != doubts.world_size
    reset = sight.reset or (doubts.reset if is_resized else None)
    strangers = _strangers(reset, world_size)
    lasting = sight.reset_trouble if sight.reset_trouble == doubts.trouble else ""
    told = _unreadable(lasting) if lasting else _named(strangers, world_size)
    kept = None if sight.reset_is_missing else sight.reset or doubts.reset
    after = replace(doubts, reset=kept, world_size=world_size, trouble=sight.reset_trouble)
    if reset is not None:
        ours = tuple(listed for listed in reset.ranks if listed.rank not in strangers)
        sight = replace(sight, reset=replace(reset, ranks=ours))
    if not told or told in doubts.told:
        return after, sight, None
    return replace(after, told=doubts.told | {told}), sight, told


def _strangers(reset: ResetFile | None, world_size: int) -> list[int]:
    if reset is None or not world_size:
        return []
    return sorted({listed.rank for listed in reset.ranks if listed.rank >= world_size})


def _unreadable(trouble: str) -> str:
    return (
        f"the reset file cannot be read: {trouble}; it is ignored until it can, so correct what is "
        "mounted there, or name another one with --reset-file"
    )


def _named(strangers: list[int], world_size: int) -> str:
    if not strangers:
        return ""
    which = "rank" if len(strangers) == 1 else "ranks"
    return (
        f"the reset file names {which} {listed(strangers, MOST_NAMED)}, but this job has ranks "
        f"0 to {world_size - 1}: these entries are ignored; see whether the file of another job is "
        "mounted"
    )


class Monitor:
    """``memory`` is what the ``looks`` have shown so far, as long as ``run`` is running.

    ``answered``: where the servers of the job agree, the values of RetryTime after which it has
    restarted already.
    """

    def __init__(
        self,
        looks: tuple[FileLook, ...],
        clock: Clock,
        report: Report,
        answered: Callable[[], frozenset[int]] | None = None,
    ) -> None:
        self._looks = looks
        self._clock = clock
        self._report = report
        self._doubts = Doubts()
        self._reset_doubts = ResetDoubts()
        self._world_size = 0
        """Of the latest generation; 0 before the first."""
        self._changed = anyio.Event()
        self._answered = answered
        self.memory = ClusterMemory(has_peers=answered is not None)

    async def run(self) -> NoReturn:
        """Look at the files every second; to be cancelled."""
        await look_out(self._looks, self._notice)

    async def look(self) -> None:
        """See what is new since the last second."""

        async def notice(look: FileLook) -> None:
            self._notice(await look())

        await every(*(partial(notice, look) for look in self._looks))

    async def change(self) -> None:
        """Wait for the next look, or for the word of an operator."""
        await self._changed.wait()

    async def incident(self) -> Incident:
        """Wait until there is an incident; answers at once while there is one."""
        while self.memory.incident is None:
            await self.change()
        return self.memory.incident

    def start(
        self,
        found: FoundTable,
        ranks: Iterable[int],
        *,
        was_told: bool = False,
        was_replaced: bool = False,
    ) -> None:
        """A generation starts with ``found``, and with ``ranks`` on this server.

        ``was_told``: another server has told of an incident before it. ``was_replaced``: another
        process has taken the place of one.
        """
        told = {"was_told": was_told, "was_replaced": was_replaced}
        self._world_size = found.table.world_size
        self.memory = started(self.memory, found, ranks, self._clock.now(), **told)

    def judge(self) -> None:
        """A failure here waits for the word of the cluster."""
        self.memory = judging(self.memory)

    def accept_table(self) -> None:
        """An operator wants the table as it is."""
        self.memory = with_table_accepted(self.memory)
        self._wake()

    def _notice(self, sight: Sight) -> None:
        now = self._clock.now()
        doubts, size = self._reset_doubts, self._size_of_job
        self._reset_doubts, sight, told = seen_for_job(doubts, sight, size)
        if told is not None:
            self._report(Diagnostic("reset file", told, None))
        if self._answered is not None:
            self.memory = with_answered(self.memory, self._answered())
        known = self.memory.incident
        self.memory = noticed(self.memory, sight, now)
        incident = self.memory.incident
        if incident is not None and (known is None or incident.trigger != known.trigger):
            self._report(ClusterIncident(incident.trigger, incident.reason))
        before, self._doubts = self._doubts, doubts_after(self._doubts, self.memory, now)
        if (told := told_now(before, self._doubts)) is not None:
            self._report(Diagnostic("rank table", told, None))
        self._wake()

    @property
    def _size_of_job(self) -> int:
        """How many ranks it has, by the table that runs or the one that was seen last."""
        table = self.memory.table
        seen = table.found.table.world_size if isinstance(table, CompletedTable) else 0
        return max(self._world_size, seen)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
