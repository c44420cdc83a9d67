"""Tells what of the cluster is waited for: at once, when the reason changes, now and then."""

from __future__ import annotations

from ascend_supervisor.coordination.followed_cluster.start_obstacles import StartObstacle
from ascend_supervisor.errors import TableTimeout, Unavailable
from ascend_supervisor.events import Report
from ascend_supervisor.events.cluster import ClusterWaiting
from ascend_supervisor.events.leftovers import wait_ended
from ascend_supervisor.tasks.clock import Clock
from ascend_supervisor.tasks.long_wait import CLUSTER, LongWait


class Patient(LongWait):
    """Waits for one obstacle after another, each with its own limit, and tells of them."""

    def __init__(self, table_timeout: float | None, clock: Clock, report: Report) -> None:
        super().__init__(CLUSTER, clock.elapsed, wait_ended(report))
        self._table_timeout = table_timeout
        self._clock = clock
        self._report = report
        self._first = self._since = clock.now()
        self._limit: float | None = None

    def wait_for(self, obstacle: StartObstacle) -> None:
        """Raises TableTimeout or Unavailable if this kind of obstacle has lasted too long."""
        now = self._clock.now()
        if obstacle.limit != self._limit:
            self._limit, self._since = obstacle.limit, now
        limit = self._table_timeout if obstacle.limit is None else obstacle.limit
        if limit is not None and now - self._since >= limit and not obstacle.ends:
            within = f"within {limit:g} s: {obstacle.reason}"
            if obstacle.limit is None:
                raise TableTimeout(f"the cluster has not completed a rank table {within}")
            raise Unavailable(f"the cluster has not recovered {within}")
        total = None if limit is None else round(self._since - self._first + limit, 3)
        if self.is_due(obstacle.reason):
            waited = self.told(obstacle.reason)
            self._report(ClusterWaiting(obstacle.reason, waited, total))
