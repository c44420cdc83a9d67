"""The rank table of a cluster that is followed: who is where, once a generation may start."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

from msgspec.structs import replace

from ascend_supervisor.cluster.identity import Identity, find_entry
from ascend_supervisor.cluster.rank_table import FoundTable
from ascend_supervisor.coordination.followed_cluster.cluster_files import FileLook
from ascend_supervisor.coordination.followed_cluster.incident import (
    FollowRules,
    Incident,
    ended_by,
    fault,
)
from ascend_supervisor.coordination.followed_cluster.incident_detection import LASTING_SECONDS
from ascend_supervisor.coordination.followed_cluster.memory import MOST_RESTARTS, CompletedTable
from ascend_supervisor.coordination.followed_cluster.monitor import Monitor
from ascend_supervisor.coordination.followed_cluster.start_obstacles import (
    UNCHANGED_SECONDS,
    StartObstacle,
    check_table,
    obstacle,
)
from ascend_supervisor.errors import LeftOut, TableRefused, TableTimeout, Unavailable
from ascend_supervisor.events import Report
from ascend_supervisor.events.cluster import ClusterWaiting
from ascend_supervisor.events.leftovers import wait_ended
from ascend_supervisor.life import Placed
from ascend_supervisor.outcome import Fault
from ascend_supervisor.restart_policy import ClusterRestarts, Stop
from ascend_supervisor.tasks.clock import Clock
from ascend_supervisor.tasks.long_wait import CLUSTER, LongWait


class FollowedTable:
    """``table`` waits for the first one, and ``looks`` follow the files from then on.

    What they show is up to date while ``monitor.run`` is running; ``answered`` is the monitor's.
    """

    def __init__(
        self,
        table: Callable[[], Awaitable[FoundTable]],
        looks: tuple[FileLook, ...],
        identity: Identity,
        rules: FollowRules,
        clock: Clock,
        report: Report,
        answered: Callable[[], frozenset[int]] | None = None,
    ) -> None:
        self.monitor = Monitor(looks, clock, report, answered)
        self.rules = rules
        self._first = table
        self._identity = identity
        self._clock = clock
        self._report = report
        self._left_out_since: float | None = None
        """Since when one table after another does not hold us."""

    async def placed(self) -> Placed | Stop:
        """Wait until the cluster has recovered; a Stop if it ends this server.

        Raises a Refusal: the table is wrong, does not hold us, or the wait was too long.
        """
        if not self.monitor.memory.running:
            await self._first()
        found = await self.look()
        with Patient(self.rules.table_timeout, self._clock, self._report) as patience:
            while isinstance(found, StartObstacle):
                check_table(self.monitor.memory, self._clock.now())
                patience.wait_for(found)
                await self.monitor.change()
                found = self.found()
        # What variables say of the job's size holds for its first table only.
        self._identity = replace(self._identity, size=None)
        return found

    async def look(self) -> Placed | StartObstacle | Stop:
        """As ``found``, with what is new since the last second."""
        await self.monitor.look()
        return self.found()

    def found(self) -> Placed | StartObstacle | Stop:
        """Our place in the table, unless no generation may start.

        Raises LeftOut if the table has not held us for some time.
        """
        memory, now = self.monitor.memory, self._clock.now()
        if memory.incident is not None and memory.incident.is_final:
            return ended_by(memory.incident)
        if not isinstance(memory.table, CompletedTable):
            self._left_out_since = None
            return obstacle(memory, (), now) or StartObstacle("the rank table cannot be read", None)
        table = memory.table.found
        try:
            place = Placed(table, *find_entry(table.table, self._identity))
        except TableRefused as refusal:
            return self._left_out(refusal, now)
        self._left_out_since = None
        ranks = (device.rank for device in place.entry.devices)
        return obstacle(memory, ranks, now) or place

    def _left_out(self, refusal: TableRefused, now: float) -> StartObstacle:
        """The table does not hold this server; raises LeftOut once that has lasted.

        A new pod may see the table of the pods before it for a while. As long as faults are
        collected, the cluster has not decided who takes part.
        """
        memory = self.monitor.memory
        if memory.reset.is_flushing and (held := obstacle(memory, (), now)):
            self._left_out_since = None
            return held
        since = self._left_out_since = now if self._left_out_since is None else self._left_out_since
        limit = LASTING_SECONDS if memory.running else UNCHANGED_SECONDS
        if now - since >= limit:
            raise LeftOut(*refusal.faults) from refusal
        return StartObstacle(
            f"the rank table does not hold this server: {refusal}", limit, ends=True
        )

    def end_wait(self) -> bool:
        """End the wait for a new table, as an operator wants; returns whether there is one."""
        with suppress(TableRefused):
            found = self.found()
            if isinstance(found, StartObstacle) and found.by_hand:
                self.monitor.accept_table()
                return True
        return False

    def fault(self, incident: Incident) -> Fault:
        """How it ends the ranks here."""
        return fault(incident, self.rules.patience, self.rules.reset_grace)

    def restarts(self, more: int) -> ClusterRestarts:
        """What the cluster has used of its restarts, and so many ``more``."""
        used = self.monitor.memory.recent_restarts(self._clock.now()) + more
        return ClusterRestarts(used, MOST_RESTARTS)


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
