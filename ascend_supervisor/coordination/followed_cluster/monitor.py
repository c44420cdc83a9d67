"""Keeps what is known of the cluster up to date, for the life of the job, and wakes up who waits.

It reports what is seen: a new incident, and a table that becomes wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import NoReturn

import anyio

from ascend_supervisor.cluster.rank_table import FoundTable
from ascend_supervisor.coordination.followed_cluster.cluster_files import Look, look_out
from ascend_supervisor.coordination.followed_cluster.doubtful_resets import (
    ResetDoubts,
    seen_for_job,
)
from ascend_supervisor.coordination.followed_cluster.incident import Incident
from ascend_supervisor.coordination.followed_cluster.incident_detection import noticed
from ascend_supervisor.coordination.followed_cluster.memory import (
    Memory,
    judging,
    started,
    with_answered,
    with_table_accepted,
)
from ascend_supervisor.coordination.followed_cluster.one_look import CompletedTable, Sight
from ascend_supervisor.coordination.followed_cluster.wrong_tables import (
    Doubts,
    doubts_after,
    told_now,
)
from ascend_supervisor.events import Report
from ascend_supervisor.events.cluster import ClusterIncident
from ascend_supervisor.events.supervisor import Diagnostic
from ascend_supervisor.tasks.clock import Clock
from ascend_supervisor.tasks.race import every


class Monitor:
    """``memory`` is what the ``looks`` have shown so far, as long as ``run`` is running.

    ``answered``: where the servers of the job agree, the values of RetryTime after which it has
    restarted already.
    """

    def __init__(
        self,
        looks: tuple[Look, ...],
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
        self.memory = Memory(has_peers=answered is not None)

    async def run(self) -> NoReturn:
        """Look at the files every second; to be cancelled."""
        await look_out(self._looks, self._notice)

    async def look(self) -> None:
        """See what is new since the last second."""

        async def notice(look: Look) -> None:
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
