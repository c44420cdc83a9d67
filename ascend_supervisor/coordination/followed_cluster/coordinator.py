"""The cluster coordinates the servers of a job: its rank table and its reset file say how."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

import anyio
from msgspec.structs import replace

from ascend_supervisor.coordination.alone import FOLLOWED, Alone, Ledger
from ascend_supervisor.coordination.followed_cluster.followed_table import FollowedTable
from ascend_supervisor.coordination.followed_cluster.incident import (
    Incident,
    ended_by,
    is_failed,
    is_settled,
    what_failed,
)
from ascend_supervisor.coordination.followed_cluster.memory import UNSTABLE
from ascend_supervisor.coordination.followed_cluster.start_obstacles import is_accepted_unchanged
from ascend_supervisor.errors import UNAVAILABLE
from ascend_supervisor.events import Report
from ascend_supervisor.events.cluster import ClusterWaiting, RankTableUnchanged
from ascend_supervisor.events.leftovers import wait_ended
from ascend_supervisor.events.supervisor import Diagnostic
from ascend_supervisor.evidence.blame import is_caused_here
from ascend_supervisor.life import Placed, Start
from ascend_supervisor.outcome import Crashed, Ended, Fault
from ascend_supervisor.restart_policy import Decision, Restart, Stop
from ascend_supervisor.tasks.clock import Clock
from ascend_supervisor.tasks.long_wait import CLUSTER, LongWait
from ascend_supervisor.tasks.race import beside


class FollowedCluster(Alone):
    """Charges failures of this server to its ``ledger``, and those of the cluster to nobody.

    ``where`` says where this server is, and what the cluster says of the ranks.
    """

    def __init__(self, where: FollowedTable, ledger: Ledger, clock: Clock, report: Report) -> None:
        joins_others = where.rules.joins_others
        super().__init__(where.placed, ledger, joins_others=joins_others, elsewhere=FOLLOWED)
        self._where = where
        self._monitor = where.monitor
        self._rules = where.rules
        self._clock = clock
        self._report = report

    def joined(self) -> AbstractAsyncContextManager[object]:
        return beside(self._monitor.run)

    def end_wait(self) -> bool:
        return self._where.end_wait()

    async def gather(self) -> Start | Stop:
        """Wait until the cluster has recovered."""
        start = await super().gather()
        if isinstance(start, Stop):
            return start
        is_recovered = self._monitor.memory.incident is not None
        return replace(start, cluster=self._where.restarts(int(is_recovered)))

    async def still(self, start: Start) -> bool:
        found = await self._where.look()
        if not isinstance(found, Placed) or found.found.essence != start.found.essence:
            return False
        self._tell_doubts(found)
        self._monitor.start(start.found, start.local_ranks)
        return True

    def _tell_doubts(self, place: Placed) -> None:
        memory = self._monitor.memory
        if memory.incident is not None and is_accepted_unchanged(memory):
            waited = round(self._clock.now() - memory.incident.began, 3)
            self._report(RankTableUnchanged(str(place.found.path), waited))
        if not memory.running and memory.reset_was_missing:
            reason = (
                f"there is no reset file {self._rules.reset_file}: until there is one, only the "
                "rank table is followed; mount its directory, or name it with --reset-file"
            )
            self._report(Diagnostic("--follow-cluster", reason, None))

    async def must_end(self, start: Start) -> Fault:  # noqa: ARG002
        return self._where.fault(await self._monitor.incident())

    async def settle(self, start: Start, ended: Ended) -> Decision:
        incident, is_alone = self._monitor.memory.incident, self.is_alone(start)
        if incident is not None and incident.is_final and is_failed(ended):
            return ended_by(incident)
        if is_settled(ended) or (is_alone and incident is None):
            return self._counted(self._ledger.settle(ended, holds_all_ranks=is_alone))
        if incident is None and self._is_ours(ended):
            return self._left_to_cluster(ended, "the cause is on this server")
        if incident is None:
            incident = await self._verdict(ended)
        if incident is None:
            within = f"the cluster has not acted within {self._rules.verdict:g} s"
            return self._left_to_cluster(ended, f"{within} (--cluster-verdict)")
        return self._recovered(ended, incident)

    def _is_ours(self, ended: Ended) -> bool:
        outcome = ended.decisive
        if not isinstance(outcome, Crashed):
            return False
        failure = outcome.failure
        return self._ledger.is_never_retried(failure) or is_caused_here(failure)

    async def _verdict(self, ended: Ended) -> Incident | None:
        """What the cluster says of a failure here, which may be a consequence of its own."""
        seconds = self._rules.verdict
        self._monitor.judge()
        reason = f"{what_failed(ended)}; unless it acts within {seconds:g} s, this server ends"
        with LongWait(CLUSTER, self._clock.elapsed, wait_ended(self._report)) as wait:
            self._report(ClusterWaiting(reason, wait.told(), seconds))
            with anyio.move_on_after(seconds):
                await self._monitor.incident()
            await self._monitor.look()  # the machine may be busy, and the last look a while ago
        return self._monitor.memory.incident

    def _left_to_cluster(self, ended: Ended, why: str) -> Decision:
        """The end with the code of the failure."""
        decision = self._ledger.settle(ended, holds_all_ranks=False)
        if isinstance(decision, Stop):
            return replace(decision, reason=f"{why}; the cluster's scheduler decides what follows")
        return decision

    def _recovered(self, ended: Ended, incident: Incident) -> Decision:
        """A restart that is not charged, whatever failed here because of the incident."""
        if self._monitor.memory.is_unstable(self._clock.now()):
            return Stop(UNAVAILABLE, UNSTABLE)
        told = self._where.fault(incident)
        ended = replace(ended, outcome=told, faults=())
        decision = self._counted(self._ledger.settle_recovered(ended), more=1)
        if isinstance(decision, Restart):
            return replace(decision, cause=told.reason)
        return decision

    def _counted(self, decision: Decision, more: int = 0) -> Decision:
        if isinstance(decision, Restart):
            return replace(decision, cluster=self._where.restarts(more))
        return decision
