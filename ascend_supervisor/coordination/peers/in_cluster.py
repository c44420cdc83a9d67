"""The cluster says who is where, and the servers agree when: --peers with --follow-cluster.

An incident that one server sees ends the generation on all. The others may see it at another
moment: it is the same one. No generation starts while the files of any server forbid it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import NoReturn

from msgspec.structs import replace

from ascend_supervisor.coordination.followed_cluster.followed_table import FollowedTable
from ascend_supervisor.coordination.followed_cluster.incident import Incident, ended_by, is_failed
from ascend_supervisor.coordination.followed_cluster.memory import UNSTABLE, CompletedTable
from ascend_supervisor.coordination.followed_cluster.start_obstacles import StartObstacle, is_late
from ascend_supervisor.coordination.peers.coordinator import Peers
from ascend_supervisor.coordination.peers.ends import Replaced
from ascend_supervisor.coordination.peers.meeting import PeersMeeting
from ascend_supervisor.coordination.peers.tables import WrittenTable
from ascend_supervisor.errors import UNAVAILABLE, TableRefused, Unavailable
from ascend_supervisor.events import Report
from ascend_supervisor.events.cluster import ClusterWaiting
from ascend_supervisor.events.leftovers import wait_ended
from ascend_supervisor.life import JobSeen, Placed, Start
from ascend_supervisor.outcome import Ended, Fault, Outcome, Remedy
from ascend_supervisor.restart_policy import Decision, Restart, Stop
from ascend_supervisor.tasks.clock import Clock
from ascend_supervisor.tasks.long_wait import CLUSTER, LongWait
from ascend_supervisor.tasks.race import beside, first


class PeersInCluster:
    """``followed`` makes the rank table that is followed, with what its monitor is to know.

    The rest is that of the peers.
    """

    def __init__(
        self,
        followed: Callable[[Callable[[], frozenset[int]]], FollowedTable],
        meeting: PeersMeeting,
        fence: Callable[[float], None],
        clock: Clock,
        report: Report,
    ) -> None:
        tables = WrittenTable(self._placed, may_move=meeting.may_move)
        self._peers = Peers(meeting, tables, fence, clock, report)
        self._where = followed(lambda: self._peers.answered)
        self._monitor = self._where.monitor
        self._clock = clock
        self._report = report
        self._told: Fault | None = None
        """What the cluster wanted last of the generation that runs."""

    @asynccontextmanager
    async def joined(self) -> AsyncIterator[None]:
        """A defect in following the cluster is the farewell to the peers."""
        async with self._peers.joined(), beside(self._monitor.run, self._pass_on):
            yield

    def end_wait(self) -> bool:
        return self._where.end_wait()

    def seen(self) -> JobSeen | None:
        return self._peers.seen()

    async def gather(self) -> Start | Stop:
        """Wait until all servers are ready with the same table; raises a Refusal."""
        start = await self._peers.gather()
        if isinstance(start, Stop):
            return start
        more = self._monitor.memory.incident is not None or self._peers.was_told
        return replace(start, cluster=self._where.restarts(int(more)))

    async def still(self, start: Start) -> bool:
        """All start now: what the cluster says against it ends the generation before it begins."""
        found = await self._where.look()
        if not await self._peers.still(start):
            return False
        told = {"was_told": self._peers.was_told, "was_replaced": self._peers.was_replaced}
        is_as_agreed = isinstance(found, Placed) and found.found.essence == start.found.essence
        is_only_late = any(told.values()) and is_late(self._monitor.memory, start.local_ranks)
        if is_as_agreed or (is_only_late and not isinstance(found, Stop)):
            self._monitor.start(start.found, start.local_ranks, **told)
            self._told = None
            self._tell_peers()
            return True
        why = (
            found.reason
            if isinstance(found, (StartObstacle, Stop))
            else "the rank table has changed"
        )
        reason = f"the cluster recovers: {why}"
        withdrawn = Fault(reason, UNAVAILABLE, Remedy.FREE, by_cluster=True)
        await self._peers.announce(start, withdrawn, 0.0)
        await self._peers.settle(start, Ended(withdrawn, 0.0))
        return False

    async def must_end(self, start: Start) -> Fault:
        """Each word of the cluster is told once; then the peers are heard again."""
        found = await first(self._recovery, partial(self._peers.must_end, start))
        if found.by_cluster:
            self._told = found
        return found

    async def announce(self, start: Start, verdict: Outcome, uptime: float) -> None:
        await self._peers.announce(start, self._for_all(verdict), uptime)

    async def settle(self, start: Start, ended: Ended) -> Decision:
        if is_failed(ended):
            self._monitor.judge()
        outcome, *faults = (self._for_all(one) for one in (ended.outcome, *ended.faults))
        told = replace(ended, outcome=outcome, faults=tuple(faults))
        decision = await first(partial(self._peers.settle, start, told), self._tell_pending)
        incident = self._monitor.memory.incident
        if not isinstance(decision, Restart):
            return decision
        if incident is not None and _is_here_alone(incident):
            return ended_by(incident)
        more = decision.is_free and self._peers.was_told
        return replace(decision, cluster=self._where.restarts(int(more)))

    # The word of the cluster.

    async def _pass_on(self) -> NoReturn:
        """Tell the peers what the cluster says, as it says it."""
        while True:
            await self._monitor.change()
            self._tell_peers()
            self._take_back()

    def _tell_peers(self) -> None:
        memory = self._monitor.memory
        incident = memory.incident
        told = None if incident is None else self._for_all(self._fault(incident))
        fault_told = told if isinstance(told, Fault) else None
        self._peers.hear(fault_told, memory.retry_time, memory.confirmed)

    def _take_back(self) -> None:
        """This server is not ready while its files forbid a start.

        A new table is not awaited any more when the server that takes another's place is ready
        with the one that is there: it is the table of the new pods.
        """
        table = self._monitor.memory.table
        with suppress(TableRefused):
            found = self._where.found()
            if isinstance(found, Placed):
                return
            is_awaited = isinstance(found, StartObstacle) and found.by_hand
            is_there = isinstance(table, CompletedTable) and self._peers.has_newcomer_with(
                table.found.essence
            )
            if is_awaited and is_there:
                self._monitor.accept_table()
                return
        self._peers.take_back()

    async def _recovery(self) -> Fault:
        while (found := self._fault(await self._monitor.incident())) == self._told:
            await self._monitor.change()
        return found

    def _fault(self, incident: Incident) -> Fault:
        """How it ends the ranks here."""
        if not self._monitor.memory.is_unstable(self._clock.now()):
            return self._where.fault(incident)
        return Fault(UNSTABLE, UNAVAILABLE, Remedy.FINAL, by_cluster=True)

    def _for_all(self, outcome: Outcome) -> Outcome:
        """The same for the other servers: a faulty NPU here ends this server, and not the job."""
        incident = self._monitor.memory.incident
        if not isinstance(outcome, Fault) or not outcome.by_cluster or incident is None:
            return outcome
        return replace(outcome, remedy=Remedy.FREE) if _is_here_alone(incident) else outcome

    async def _tell_pending(self) -> NoReturn:
        """Tell that the cluster may say of a failure that it is its own."""
        limit = self._where.rules.verdict
        with LongWait(CLUSTER, self._clock.elapsed, wait_ended(self._report)) as wait:
            while True:
                failure = self._peers.pending
                if failure is not None and wait.is_due(failure):
                    reason = f"{failure}; unless it acts within {limit:g} s, it is charged"
                    self._report(ClusterWaiting(reason, wait.told(failure), limit))
                await self._monitor.change()

    async def _placed(self) -> Placed:
        """Our place, once a generation may start; raises a Refusal, also where we are to end."""
        found = await self._where.placed()
        if not isinstance(found, Stop):
            return found
        incident = self._monitor.memory.incident
        is_ours = incident is not None and _is_here_alone(incident)
        raise (Replaced if is_ours else Unavailable)(found.reason)


def _is_here_alone(incident: Incident) -> bool:
    """Whether it ends this server alone: the cluster replaces it, and the others wait for that."""
    return incident.trigger == "npu_fault"
