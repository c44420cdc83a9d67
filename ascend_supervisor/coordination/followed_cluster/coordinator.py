"""The cluster coordinates the servers of a job: its rank table and its reset file say how."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress

from ascend_supervisor.cluster.identity import Identity
from ascend_supervisor.cluster.rank_table import FoundTable
from ascend_supervisor.coordination.alone import FOLLOWED, Ledger, without_restarts
from ascend_supervisor.coordination.followed_cluster.cluster_files import FileLook
from ascend_supervisor.coordination.followed_cluster.cluster_verdict import Settlement
from ascend_supervisor.coordination.followed_cluster.incident import FollowRules, fault
from ascend_supervisor.coordination.followed_cluster.monitor import Monitor
from ascend_supervisor.coordination.followed_cluster.start_obstacles import (
    OwnPlace,
    StartObstacle,
    TablePlace,
    check_table,
    is_accepted_unchanged,
)
from ascend_supervisor.coordination.followed_cluster.waiting import Patient
from ascend_supervisor.coordination.whole_job import JobSeen
from ascend_supervisor.errors import TableRefused
from ascend_supervisor.events import Report
from ascend_supervisor.events.cluster import RankTableUnchanged
from ascend_supervisor.events.supervisor import Diagnostic
from ascend_supervisor.life import Start
from ascend_supervisor.outcome import Ended, Fault, Outcome
from ascend_supervisor.restart_policy import Decision, Stop
from ascend_supervisor.tasks.clock import Clock
from ascend_supervisor.tasks.race import beside


class FollowedCluster:
    """``table`` waits for the first rank table, and ``looks`` follow the files from then on."""

    def __init__(
        self,
        table: Callable[[], Awaitable[FoundTable]],
        looks: tuple[FileLook, ...],
        identity: Identity,
        ledger: Ledger,
        rules: FollowRules,
        clock: Clock,
        report: Report,
    ) -> None:
        self._table = table
        self._place = OwnPlace(identity)
        self._ledger = ledger
        self._rules = rules
        self._clock = clock
        self._report = report
        self._monitor = Monitor(looks, clock, report)
        self._settlement = Settlement(self._monitor, ledger, rules, clock, report)

    def joined(self) -> AbstractAsyncContextManager[object]:
        return beside(self._monitor.run)

    def seen(self) -> JobSeen | None:
        return None

    def end_wait(self) -> bool:
        with suppress(TableRefused):
            found = self._found()
            if isinstance(found, StartObstacle) and found.by_hand:
                self._monitor.accept_table()
                return True
        return False

    async def gather(self) -> Start | Stop:
        """Wait until the cluster has recovered.

        Raises a Refusal: the table is wrong, does not hold us, or the wait was too long.
        """
        if not self._monitor.memory.running:
            await self._table()
        await self._monitor.look()
        with Patient(self._rules.table_timeout, self._clock, self._report) as patience:
            while isinstance(found := self._found(), StartObstacle):
                check_table(self._monitor.memory, self._clock.now())
                patience.wait_for(found)
                await self._monitor.change()
        return found if isinstance(found, Stop) else self._start(found)

    async def still(self, start: Start) -> bool:
        await self._monitor.look()
        found = self._found()
        if isinstance(found, (StartObstacle, Stop)) or found.found.essence != start.found.essence:
            return False
        self._tell_doubts(found)
        self._monitor.start(start.found, start.local_ranks)
        return True

    def _found(self) -> TablePlace | StartObstacle | Stop:
        """Our place in the table, unless no generation may start; raises TableRefused."""
        return self._place.found(self._monitor.memory, self._clock.now())

    def _start(self, place: TablePlace) -> Start:
        ledger = self._ledger
        self._place.size_may_change()
        left = ledger.restarts_left
        start = Start(
            *(ledger.generation, place.found, place.node_rank, place.entry, left),
            cluster=self._settlement.restarts(more=int(self._monitor.memory.incident is not None)),
        )
        joins = self._rules.joins_others
        return without_restarts(start, ledger.limit, joins_others=joins, elsewhere=FOLLOWED)

    def _tell_doubts(self, place: TablePlace) -> None:
        memory = self._monitor.memory
        if memory.incident is not None and is_accepted_unchanged(memory):
            waited = round(self._clock.now() - memory.incident.began, 3)
            self._report(RankTableUnchanged(str(place.found.path), waited))
        if not memory.running and memory.reset_was_missing:
            self._report(Diagnostic("--follow-cluster", _no_reset_file(self._rules), None))

    async def must_end(self, start: Start) -> Fault:  # noqa: ARG002
        incident = await self._monitor.incident()
        return fault(incident, self._rules.patience, self._rules.reset_grace)

    async def announce(self, start: Start, verdict: Outcome, uptime: float) -> None:
        """The cluster sees for itself."""

    async def settle(self, start: Start, ended: Ended) -> Decision:
        is_alone = start.holds_all_ranks and not self._rules.joins_others
        return await self._settlement.after(ended, is_alone=is_alone)


def _no_reset_file(rules: FollowRules) -> str:
    return (
        f"there is no reset file {rules.reset_file}: until there is one, only the rank table is "
        "followed; mount its directory, or name it with --reset-file"
    )
