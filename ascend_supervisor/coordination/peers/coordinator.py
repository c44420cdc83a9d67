"""The servers of a job decide together, through etcd: one generation, one budget, one cause."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING

import anyio

from ascend_supervisor.cluster.identity import Identity, find_entry
from ascend_supervisor.cluster.rank_table import FoundTable
from ascend_supervisor.coordination.agreement.acts import EndRanks, Exit
from ascend_supervisor.coordination.agreement.charges import budget_after
from ascend_supervisor.coordination.agreement.records import Charges
from ascend_supervisor.coordination.agreement.rules import Rules
from ascend_supervisor.coordination.agreement.rules import Self as OwnServer
from ascend_supervisor.coordination.agreement.situation import Obstacle, Ranks
from ascend_supervisor.coordination.peers.ends import ended_by, fault_of, told
from ascend_supervisor.coordination.peers.farewell import say_farewell
from ascend_supervisor.coordination.peers.meeting import Meeting
from ascend_supervisor.coordination.peers.place import place_beside
from ascend_supervisor.coordination.peers.session import Session, boot_time
from ascend_supervisor.coordination.peers.store import Store
from ascend_supervisor.coordination.peers.troubles import Troubles, first_answer
from ascend_supervisor.coordination.peers.waiting import telling_waits
from ascend_supervisor.errors import UNAVAILABLE
from ascend_supervisor.events import Report
from ascend_supervisor.events.peers import PeersJoined
from ascend_supervisor.life import Start
from ascend_supervisor.outcome import Completed, Ended, Fault, Interrupted, Outcome
from ascend_supervisor.restart_policy import Decision, Restart, RestartBudget, Stop
from ascend_supervisor.tasks.clock import Clock
from ascend_supervisor.tasks.threads import aside

if TYPE_CHECKING:
    from typing_extensions import Self  # typing has it from Python 3.11 on


class Peers:
    """``table`` waits for the rank table; ``fence`` is the guardian's, at CLOCK_BOOTTIME."""

    def __init__(
        self,
        meeting: Meeting,
        table: Callable[[], Awaitable[FoundTable]],
        identity: Identity,
        fence: Callable[[float], None],
        clock: Clock,
        report: Report,
    ) -> None:
        self._meeting = meeting
        self._table = table
        self._identity = identity
        self._fence = fence
        self._clock = clock
        self._report = report
        self._session: Session | None = None
        self._incarnation = secrets.token_hex(8)
        self._spent = 0
        self._exits = AsyncExitStack()

    async def __aenter__(self) -> Self:
        etcd = await self._exits.enter_async_context(self._meeting.etcd())
        meeting = self._meeting
        self._store = Store(etcd, meeting.name, self._incarnation, round(meeting.ttl))
        self._tasks = await self._exits.enter_async_context(anyio.create_task_group())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if self._session is not None:
                with anyio.CancelScope(shield=True):
                    await say_farewell(self._session, self._store, error)
        finally:
            self._fence(inf)
            self._tasks.cancel_scope.cancel()
            await self._exits.aclose()

    async def gather(self) -> Start | Stop:
        """Wait until all servers are ready; raises a Refusal.

        The rank table must be the same on all servers, and hold this one at the same place as in
        the generation before.
        """
        found = await self._table()
        node_rank, entry = find_entry(found.table, self._identity)
        session = self._session or await self._join(found, node_rank)
        session.check_place(node_rank, found.table.servers)
        session.tell(table=found.sha256)
        async with telling_waits(session, self._clock, self._report):
            while (start := session.start) is None and not isinstance(session.order, Exit):
                await session.change()
        if isinstance(session.order, Exit):
            return ended_by(session.order, session.memory.about)
        assert start is not None  # noqa: S101
        return Start(
            start.generation, found, node_rank, entry, self._budget_now(session).left(boot_time())
        )

    async def still(self, start: Start) -> bool:
        session = self._joined
        if session.start is None or session.start.generation != start.generation:
            return False
        session.tell(ranks=Ranks.RUNNING, generation=start.generation, verdict=None)
        return True

    async def must_end(self, start: Start) -> Fault:
        """A failure here that all have heard of is not told again."""
        session = self._joined
        while True:
            order, about = session.order, session.memory.about
            cause = about.cause if about is not None else None
            is_ours = cause is not None and cause.server == start.node_rank
            kills = isinstance(order, Exit) and order.kills
            if isinstance(order, (EndRanks, Exit)) and (kills or not is_ours):
                return fault_of(order, cause, self._meeting.patience)
            await session.change()

    async def announce(self, start: Start, verdict: Outcome, uptime: float) -> None:  # noqa: ARG002
        session = self._joined
        if isinstance(session.order, (EndRanks, Exit)):
            return
        match verdict:
            case Completed():
                session.tell(ranks=Ranks.SUCCEEDED)
                return
            case Interrupted(stop=stop):
                session.tell(stop=stop.number)
            case _:
                session.tell(ranks=Ranks.FAILED, verdict=Ended(verdict, uptime))
        while not isinstance(session.order, (EndRanks, Exit)):
            await session.change()

    async def settle(self, start: Start, ended: Ended) -> Decision:
        session = self._joined
        _tell_end(session, ended)
        while not isinstance(session.order, Exit):
            epoch = session.memory.epoch
            if epoch is not None and epoch.generation > start.generation:
                session.tell(ranks=Ranks.NONE, table=None)
                return self._restart(session)
            if isinstance(session.order, EndRanks):  # all of ours have ended: nothing is left to do
                session.tell(ranks=Ranks.NONE, table=None)
            await session.change()
        return ended_by(session.order, session.memory.about)

    async def _join(self, found: FoundTable, node_rank: int) -> Session:
        """Raises Unavailable if etcd does not answer within the timeout of the peers."""
        meeting = self._meeting
        troubles = Troubles(self._report)
        await first_answer(self._store, meeting.timeout, troubles)
        place = await aside(partial(place_beside, meeting.state_file))
        own = OwnServer(self._incarnation, place, node_rank)
        rules = Rules(
            own=own,
            servers=found.table.servers,
            budget=self._meeting.budget,
            settings=meeting.settings,
            ttl=meeting.ttl,
            fence=meeting.fence,
            timeout=meeting.timeout,
        )
        session = self._session = Session(self._store, rules, self._fence, troubles.tell)
        for task in (session.run, session.stay_alive, session.watch):
            self._tasks.start_soon(task)
        self._report(PeersJoined(meeting.name, node_rank, rules.servers))
        return session

    @property
    def _joined(self) -> Session:
        assert self._session is not None  # noqa: S101  (set before the first Start)
        return self._session

    def _restart(self, session: Session) -> Restart:
        """The delay is waited for in ``gather``."""
        about = session.memory.about
        budget = self._budget_now(session)
        cause = about.cause if about is not None else None
        is_free = about is None or len(about.charges.spent) == self._spent
        self._spent = len(budget.spent)
        return Restart(0.0, budget, is_free, "" if cause is None else told(cause))

    def _budget_now(self, session: Session) -> RestartBudget:
        memory, now = session.memory, boot_time()
        charges = memory.about.charges if memory.about is not None else Charges()
        return budget_after(charges, self._meeting.budget, memory.generation_seen, now)


def _tell_end(session: Session, ended: Ended) -> None:
    """Nothing of ours runs any more, but what cannot be ended."""
    if ended.left:
        reason = f"what is left cannot be ended: {'; '.join(ended.left)}"
        session.tell(ranks=Ranks.NONE, table=None, obstacle=Obstacle(UNAVAILABLE, reason))
    elif isinstance(ended.decisive, Completed):
        session.tell(ranks=Ranks.SUCCEEDED, verdict=ended)
    else:
        session.tell(ranks=Ranks.NONE, table=None, verdict=ended)
