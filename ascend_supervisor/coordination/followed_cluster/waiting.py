"""Tells what of the cluster is waited for: at once, when the reason changes, now and then."""

from __future__ import annotations

from ascend_supervisor.coordination.followed_cluster.start_obstacles import StartObstacle
from ascend_supervisor.errors import TableTimeout, Unavailable
from ascend_supervisor.events import Report
from ascend_supervisor.events.cluster import ClusterWaiting
from ascend_supervisor.events.leftovers import WaitEnded
from ascend_supervisor.tasks.clock import CLUSTER, Clock


class Waiting:
    """A wait that begins now; ``end`` must follow."""

    def __init__(self, clock: Clock, report: Report) -> None:
        self._clock = clock
        self._report = report
        self._since = clock.elapsed()
        self._reason = ""
        self._next_at = 0.0
        self._interval = CLUSTER

    def tell(self, reason: str, limit: float | None) -> None:
        """``limit`` in seconds from the beginning of the wait."""
        waited = self._waited
        if reason == self._reason and waited < self._next_at:
            return
        if reason == self._reason:
            self._interval = self._interval.longer
        self._reason = reason
        self._next_at = waited + self._interval.seconds
        self._report(ClusterWaiting(reason, waited, limit))

    def end(self) -> None:
        if self._reason:
            self._report(WaitEnded(self._waited))

    @property
    def _waited(self) -> float:
        return round(self._clock.elapsed() - self._since, 3)


class Patient:
    """Waits for one obstacle after another, each with its own limit, and tells of them."""

    def __init__(self, table_timeout: float | None, clock: Clock, report: Report) -> None:
        self._table_timeout = table_timeout
        self._clock = clock
        self._waiting = Waiting(clock, report)
        self._began = self._since = clock.now()
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
        total = None if limit is None else round(self._since - self._began + limit, 3)
        self._waiting.tell(obstacle.reason, total)

    def end(self) -> None:
        self._waiting.end()
