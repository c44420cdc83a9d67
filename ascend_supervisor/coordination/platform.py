"""The cluster coordinates the servers of a job: its rank table and its reset file say how."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING

import anyio
from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.cluster.identity import Identity, find_entry
from ascend_supervisor.cluster.rank_table import Entry, FoundTable
from ascend_supervisor.coordination.barred_restarts import FOLLOWED, without_restarts
from ascend_supervisor.coordination.endings import ended_by, is_failed, is_settled, what_failed
from ascend_supervisor.coordination.incident import Incident, fault
from ascend_supervisor.coordination.ledger import Ledger
from ascend_supervisor.coordination.lookout import Look, look_out
from ascend_supervisor.coordination.memory import (
    MOST_RESTARTS,
    RESTARTS_SECONDS,
    Memory,
    judging,
    noticed,
    started,
    with_table_accepted,
)
from ascend_supervisor.coordination.obstacles import (
    UNCHANGED_SECONDS,
    Obstacle,
    is_accepted_unchanged,
    obstacle,
)
from ascend_supervisor.coordination.rules import Rules
from ascend_supervisor.coordination.sights import CompletedTable, Sight, WrongTable
from ascend_supervisor.coordination.waiting import Patient, Waiting
from ascend_supervisor.coordination.wrong_tables import (
    LASTING_SECONDS,
    Doubts,
    doubts_after,
    told_now,
)
from ascend_supervisor.errors import UNAVAILABLE, TableRefused
from ascend_supervisor.events import Report
from ascend_supervisor.events.cluster import ClusterIncident, RankTableUnchanged
from ascend_supervisor.events.supervisor import Diagnostic
from ascend_supervisor.evidence.blame import Blame, blame
from ascend_supervisor.life import Start
from ascend_supervisor.outcome import (
    Crashed,
    Ended,
    Fault,
    Outcome,
)
from ascend_supervisor.restart_policy import ClusterRestarts, Decision, Restart, Stop
from ascend_supervisor.tasks.clock import Clock
from ascend_supervisor.tasks.race import every

if TYPE_CHECKING:
    from typing_extensions import Self  # typing has it from Python 3.11 on


class _Place(Struct, frozen=True):
    """A table, and which entry of it is ours."""

    found: FoundTable
    node_rank: int
    entry: Entry


class Platform:
    """``table`` waits for the first rank table, and ``looks`` follow the files from then on."""

    def __init__(
        self,
        table: Callable[[], Awaitable[FoundTable]],
        looks: tuple[Look, ...],
        identity: Identity,
        ledger: Ledger,
        rules: Rules,
        clock: Clock,
        report: Report,
    ) -> None:
        self._table = table
        self._looks = looks
        self._identity = identity
        self._ledger = ledger
        self._rules = rules
        self._clock = clock
        self._report = report
        self._memory = Memory()
        self._doubts = Doubts()
        self._left_out_since: float | None = None
        self._looked = anyio.Event()
        self._tasks = anyio.create_task_group()

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        self._tasks.start_soon(look_out, self._looks, self._notice)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._tasks.cancel_scope.cancel()
        if isinstance(error, Exception):  # of the job: not to be put into a group
            kind = error = traceback = None
        await self._tasks.__aexit__(kind, error, traceback)

    def _notice(self, sight: Sight) -> None:
        known = self._memory.incident
        self._memory = noticed(self._memory, sight, self._clock.now())
        incident = self._memory.incident
        if incident is not None and (known is None or incident.trigger != known.trigger):
            self._report(ClusterIncident(incident.trigger, incident.reason))
        before, self._doubts = self._doubts, self._doubts_now()
        if (told := told_now(before, self._doubts)) is not None:
            self._report(Diagnostic("rank table", told, None))
        self._wake()

    def _wake(self) -> None:
        self._looked.set()
        self._looked = anyio.Event()

    def use_table_as_it_is(self) -> bool:
        """End the wait for a new table, as an operator wants; returns whether there is one."""
        with suppress(TableRefused):
            found = self._found()
            if isinstance(found, Obstacle) and found.by_hand:
                self._memory = with_table_accepted(self._memory)
                self._wake()
                return True
        return False

    def _doubts_now(self) -> Doubts:
        return doubts_after(self._doubts, self._memory, self._clock.now())

    async def gather(self) -> Start | Stop:
        """Wait until the cluster has recovered.

        Raises a Refusal: the table is wrong, does not hold us, or the wait was too long.
        """
        if not self._memory.running:
            await self._table()
        await self._look()
        patience = Patient(self._rules.table_timeout, self._clock, self._report)
        try:
            while isinstance(found := self._found(), Obstacle):
                self._check_table()
                patience.wait_for(found)
                await self._looked.wait()
        finally:
            patience.end()
        return found if isinstance(found, Stop) else self._start(found)

    async def still(self, start: Start) -> bool:
        await self._look()
        found = self._found()
        if isinstance(found, (Obstacle, Stop)) or found.found.essence != start.found.essence:
            return False
        now = self._clock.now()
        self._tell_doubts(found, now)
        self._memory = started(self._memory, start.found, start.local_ranks, now)
        return True

    async def _look(self) -> None:
        """See what is new since the last second."""

        async def notice(look: Look) -> None:
            self._notice(await look())

        await every(*(partial(notice, look) for look in self._looks))

    def _found(self) -> _Place | Obstacle | Stop:
        """Our place in the table, unless no generation may start; raises TableRefused."""
        memory, now = self._memory, self._clock.now()
        if memory.incident is not None and memory.incident.is_final:
            return ended_by(memory.incident)
        if not isinstance(memory.table, CompletedTable):
            self._left_out_since = None
            return obstacle(memory, (), now) or Obstacle("the rank table cannot be read", None)
        table = memory.table.found
        try:
            place = _Place(table, *find_entry(table.table, self._identity))
        except TableRefused as refusal:
            return self._left_out(refusal)
        self._left_out_since = None
        ranks = (device.rank for device in place.entry.devices)
        return obstacle(memory, ranks, now) or place

    def _left_out(self, refusal: TableRefused) -> Obstacle:
        """The table does not hold this server; raises ``refusal`` once that has lasted.

        A new pod may see the table of the pods before it for a while. As long as faults are
        collected, the cluster has not decided who takes part.
        """
        now = self._clock.now()
        if self._memory.reset.is_flushing and (held := obstacle(self._memory, (), now)):
            self._left_out_since = None
            return held
        since = self._left_out_since = now if self._left_out_since is None else self._left_out_since
        limit = LASTING_SECONDS if self._memory.running else UNCHANGED_SECONDS
        if now - since >= limit:
            raise refusal
        return Obstacle(f"the rank table does not hold this server: {refusal}", limit, ends=True)

    def _check_table(self) -> None:
        table, since = self._memory.table, self._memory.wrong_since
        if not isinstance(table, WrongTable) or since is None:
            return
        if self._clock.now() - since >= LASTING_SECONDS:
            raise TableRefused(*table.faults)

    def _start(self, place: _Place) -> Start:
        ledger = self._ledger
        # What variables say of the job's size holds for its first table only.
        self._identity = replace(self._identity, size=None)
        left = ledger.restarts_left
        start = Start(
            *(ledger.generation, place.found, place.node_rank, place.entry, left),
            cluster=self._restarts(more=int(self._memory.incident is not None)),
        )
        joins = self._rules.joins_others
        return without_restarts(start, ledger.limit, joins_others=joins, elsewhere=FOLLOWED)

    def _tell_doubts(self, place: _Place, now: float) -> None:
        memory = self._memory
        if memory.incident is not None and is_accepted_unchanged(memory):
            waited = round(now - memory.incident.began, 3)
            self._report(RankTableUnchanged(str(place.found.path), waited))
        if not memory.running and memory.reset_was_missing:
            self._report(Diagnostic("--follow-cluster", _no_reset_file(self._rules), None))

    async def must_end(self, start: Start) -> Fault:  # noqa: ARG002
        while self._memory.incident is None:
            await self._looked.wait()
        return fault(self._memory.incident, self._rules.patience, self._rules.reset_grace)

    async def announce(self, start: Start, verdict: Outcome, uptime: float) -> None:
        """The cluster sees for itself."""

    async def settle(self, start: Start, ended: Ended) -> Decision:
        is_alone = start.holds_all_ranks and not self._rules.joins_others
        incident = self._memory.incident
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
        is_never_retried = self._ledger.is_never_retried(failure.status.status)
        return is_never_retried or blame(failure) is Blame.OWN

    async def _verdict(self, ended: Ended) -> Incident | None:
        """What the cluster says of a failure here, which may be a consequence of its own."""
        seconds = self._rules.verdict
        self._memory = judging(self._memory)
        waiting = Waiting(self._clock, self._report)
        otherwise = f"unless it acts within {seconds:g} s, this server ends"
        waiting.tell(f"{what_failed(ended)}; {otherwise}", seconds)
        try:
            with anyio.move_on_after(seconds):
                while self._memory.incident is None:
                    await self._looked.wait()
            await self._look()  # the machine may be busy, and the last look a while ago
        finally:
            waiting.end()
        return self._memory.incident

    def _left_to_cluster(self, ended: Ended, why: str) -> Decision:
        """The end with the code of the failure."""
        decision = self._ledger.settle(ended, holds_all_ranks=False)
        if isinstance(decision, Stop):
            return replace(decision, reason=f"{why}; the cluster's scheduler decides what follows")
        return decision

    def _recovered(self, ended: Ended, incident: Incident) -> Decision:
        """A restart that is not charged, whatever failed here because of the incident."""
        if self._memory.is_unstable(self._clock.now()):
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
            return replace(decision, cluster=self._restarts(more))
        return decision

    def _restarts(self, more: int = 0) -> ClusterRestarts:
        """What the cluster has used of its restarts, and so many ``more``."""
        used = self._memory.recent_restarts(self._clock.now()) + more
        return ClusterRestarts(used, MOST_RESTARTS)


def _no_reset_file(rules: Rules) -> str:
    return (
        f"there is no reset file {rules.reset_file}: until there is one, only the rank table is "
        "followed; mount its directory, or name it with --reset-file"
    )
