"""What follows a generation, when the cluster may say why its ranks have failed."""

from __future__ import annotations

import anyio
from msgspec.structs import replace

from ascend_supervisor.coordination.alone import Ledger
from ascend_supervisor.coordination.followed_cluster.incident import (
    FollowRules,
    Incident,
    ended_by,
    fault,
    is_failed,
    is_settled,
    what_failed,
)
from ascend_supervisor.coordination.followed_cluster.memory import MOST_RESTARTS, RESTARTS_SECONDS
from ascend_supervisor.coordination.followed_cluster.monitor import Monitor
from ascend_supervisor.errors import UNAVAILABLE
from ascend_supervisor.events import Report
from ascend_supervisor.events.cluster import ClusterWaiting
from ascend_supervisor.events.leftovers import wait_ended
from ascend_supervisor.evidence.blame import Blame, blame
from ascend_supervisor.outcome import Crashed, Ended
from ascend_supervisor.restart_policy import ClusterRestarts, Decision, Restart, Stop
from ascend_supervisor.tasks.clock import Clock
from ascend_supervisor.tasks.long_wait import CLUSTER, LongWait


class Settlement:
    """Charges failures of this server to its ``ledger``, and those of the cluster to nobody."""

    def __init__(
        self, monitor: Monitor, ledger: Ledger, rules: FollowRules, clock: Clock, report: Report
    ) -> None:
        self._monitor = monitor
        self._ledger = ledger
        self._rules = rules
        self._clock = clock
        self._report = report

    async def after(self, ended: Ended, *, is_alone: bool) -> Decision:
        """What follows; may wait for the cluster. ``is_alone``: all that the job needs is here."""
        incident = self._monitor.memory.incident
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

    def restarts(self, more: int = 0) -> ClusterRestarts:
        """What the cluster has used of its restarts, and so many ``more``."""
        used = self._monitor.memory.recent_restarts(self._clock.now()) + more
        return ClusterRestarts(used, MOST_RESTARTS)

    def _is_ours(self, ended: Ended) -> bool:
        outcome = ended.decisive
        if not isinstance(outcome, Crashed):
            return False
        failure = outcome.failure
        is_never_retried = self._ledger.is_never_retried(failure.status.status)
        return is_never_retried or blame(failure) is Blame.OWN

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
            return Stop(
                UNAVAILABLE,
                f"the cluster is unstable: it has asked for more than {MOST_RESTARTS} restarts "
                f"within {RESTARTS_SECONDS:g} s",
            )
        told = fault(incident, self._rules.patience, self._rules.reset_grace)
        ended = replace(ended, outcome=told, faults=())
        decision = self._counted(self._ledger.settle_recovered(ended), more=1)
        if isinstance(decision, Restart):
            return replace(decision, cause=told.reason)
        return decision

    def _counted(self, decision: Decision, more: int = 0) -> Decision:
        if isinstance(decision, Restart):
            return replace(decision, cluster=self.restarts(more))
        return decision
