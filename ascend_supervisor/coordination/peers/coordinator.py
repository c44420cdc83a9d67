"""The servers of a job decide together, through etcd: one generation, one budget, one cause."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from math import inf
from platform import node
from types import TracebackType
from typing import TYPE_CHECKING

import anyio
from msgspec import Struct

from ascend_supervisor.cluster.identity import Identity, find_entry
from ascend_supervisor.cluster.rank_table import Entry, FoundTable
from ascend_supervisor.coordination.agreement.acts import EndRanks, Exit, StartRanks
from ascend_supervisor.coordination.agreement.charges import budget_after
from ascend_supervisor.coordination.agreement.records import Charges
from ascend_supervisor.coordination.agreement.rules import Rules
from ascend_supervisor.coordination.agreement.rules import Self as OwnServer
from ascend_supervisor.coordination.agreement.situation import Obstacle, Ranks
from ascend_supervisor.coordination.peers.ends import ended_by, fault_of, told
from ascend_supervisor.coordination.peers.farewell import say_farewell
from ascend_supervisor.coordination.peers.meeting import Meeting
from ascend_supervisor.coordination.peers.place import place_beside
from ascend_supervisor.coordination.peers.requests import boot_time
from ascend_supervisor.coordination.peers.session import Session
from ascend_supervisor.coordination.peers.store import Store
from ascend_supervisor.coordination.peers.troubles import Troubles, first_answer
from ascend_supervisor.coordination.peers.waiting import telling_waits
from ascend_supervisor.coordination.peers.words import seen
from ascend_supervisor.coordination.whole_job import JobSeen
from ascend_supervisor.errors import UNAVAILABLE
from ascend_supervisor.events import Report
from ascend_supervisor.events.peers import PeersJoined
from ascend_supervisor.life import Start
from ascend_supervisor.outcome import Completed, Ended, Fault, Interrupted, Outcome, Remedy
from ascend_supervisor.restart_policy import Decision, Restart, RestartBudget, Stop
from ascend_supervisor.tasks.clock import Clock
from ascend_supervisor.tasks.race import first
from ascend_supervisor.tasks.threads import aside

if TYPE_CHECKING:
    from typing_extensions import Self  # typing has it from Python 3.11 on


TABLE_AGAIN_SECONDS = 5.0


class _Place(Struct, frozen=True):
    """A rank table, and which entry of it is ours."""

    found: FoundTable
    node_rank: int
    entry: Entry


_News = _Place | StartRanks | Exit


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
        self._places: dict[str, _Place] = {}
        """By the digest of the table."""
        self._incarnation = secrets.token_hex(8)
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
        tasks = self._tasks.cancel_scope
        try:
            if self._session is not None and not tasks.cancel_called:  # else a defect has ended it
                with anyio.CancelScope(shield=True):
                    await say_farewell(self._session, self._store, error, self._meeting.ttl)
        finally:
            tasks.cancel()
            try:
                await self._exits.aclose()
            except Exception as group:  # noqa: BLE001  (a defect of a task, in a group of its own)
                raise getattr(group, "exceptions", (group,))[0] from None
            finally:
                self._fence(inf)

    def seen(self) -> JobSeen | None:
        """The whole job, as it was read last; None before that."""
        session = self._session
        if session is None or session.memory.read is None:
            return None
        places, now = list(self._places.values()), boot_time()
        hosts = tuple(one.label for one in places[-1].found.table.entries) if places else ()
        servers = seen(session.words, hosts, now)
        age = max(0.0, now - session.memory.read)
        return JobSeen(self._meeting.name, session.memory.index, age, servers)

    async def gather(self) -> Start | Stop:
        """Wait until all servers are ready; raises a Refusal.

        The rank table must be the same on all servers, and hold this one at the same place as in
        the generation before. It is read again while others are waited for: after a pod was
        replaced, the new one does not come to all servers at once.
        """
        session = self._session
        if session is None:
            place = await self._place()
            session = await self._join(place)
            news: _News = place
        else:
            news = await first(partial(_ordered, session), self._place)
        ordered = partial(_ordered, session)
        async with telling_waits(session, self._clock, self._report):
            while isinstance(news, _Place):
                servers = news.found.table.servers
                session.take_place(news.node_rank, servers, may_move=self._meeting.may_move)
                self._places[news.found.essence] = news
                if session.situation.table != news.found.essence:
                    session.tell(table=news.found.essence)
                news = await first(ordered, self._place_again)
        if isinstance(news, Exit):
            return ended_by(news, session.memory)
        agreed = self._places[session.ready_with]
        left = self._budget_now(session).left(boot_time())
        return Start(news.generation, agreed.found, agreed.node_rank, agreed.entry, left)

    async def _place(self) -> _Place:
        found = await self._table()
        return _Place(found, *find_entry(found.table, self._identity))

    async def _place_again(self) -> _Place:
        await anyio.sleep(TABLE_AGAIN_SECONDS)
        return await self._place()

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
            has_told = session.situation.verdict is not None or session.situation.stop is not None
            is_ours = has_told and cause is not None and cause.server == start.node_rank
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
                await self._price(session)
                if not isinstance(session.order, Exit):
                    return self._restart(session)
                break
            if isinstance(session.order, EndRanks):  # all of ours have ended: nothing is left to do
                session.tell(ranks=Ranks.NONE, table=None)
            await session.change()
        return ended_by(session.order, session.memory)

    async def _price(self, session: Session) -> None:
        """Wait until the price of the restart is known; without all servers only for so long."""
        end = session.memory.phase_seen + self._meeting.verdict + self._meeting.ttl
        with anyio.move_on_after(max(0.0, end - boot_time())):
            while self.pending is not None and not isinstance(session.order, Exit):
                await session.change()

    def hear(self, fault: Fault | None) -> None:
        """What the cluster says of our ranks at present, None if nothing."""
        session = self._session
        if session is not None and session.situation.cluster != fault:
            session.tell(cluster=fault)

    @property
    def was_told(self) -> bool:
        """Whether a server has seen that the cluster recovers, before the latest restart."""
        about = self._joined.memory.about
        return about is not None and about.by_cluster

    @property
    def pending(self) -> str | None:
        """The failure of which the cluster may say that it is its own; None if there is none."""
        about = self._joined.memory.about
        if about is None or about.cause is None or about.pending is None:
            return None
        return told(about.cause)

    async def _join(self, at: _Place) -> Session:
        """Raises Unavailable if etcd does not answer within the timeout of the peers."""
        meeting = self._meeting
        troubles = Troubles(self._report, self._ranks_run)
        await first_answer(self._store, meeting.timeout, troubles)
        place = await aside(partial(place_beside, meeting.state_file))
        own = OwnServer(self._incarnation, place, at.node_rank, host=node())
        rules = Rules(
            own=own,
            servers=at.found.table.servers,
            budget=self._meeting.budget,
            settings=meeting.settings,
            ttl=meeting.ttl,
            fence=meeting.fence,
            timeout=meeting.timeout,
            verdict=meeting.verdict,
        )
        session = self._session = Session(
            self._store, rules, self._fence, troubles.tell, meeting.few
        )
        for task in (session.run, session.stay_alive, session.watch):
            self._tasks.start_soon(task)
        self._report(PeersJoined(meeting.name, at.node_rank, rules.servers))
        return session

    def _ranks_run(self) -> bool:
        session = self._session
        return session is not None and session.situation.ranks is not Ranks.NONE

    @property
    def _joined(self) -> Session:
        assert self._session is not None  # noqa: S101  (set before the first Start)
        return self._session

    def _restart(self, session: Session) -> Restart:
        """What is left of the delay, for which the others wait, too."""
        memory, budget = session.memory, self._budget_now(session)
        about = memory.about
        if about is None or about.cause is None:
            return Restart(0.0, budget)
        delay = max(0.0, memory.phase_seen + about.delay - boot_time())
        cause = about.cause
        return Restart(delay, budget, about.is_free, told(cause), server=cause.server)

    def _budget_now(self, session: Session) -> RestartBudget:
        memory, now = session.memory, boot_time()
        charges = memory.about.charges if memory.about is not None else Charges()
        return budget_after(charges, self._meeting.budget, memory.generation_seen, now)


async def _ordered(session: Session) -> _News:
    """What starts on all servers, or the end of this one; ``still`` says whether it still holds."""
    while (start := session.start) is None:
        if isinstance(session.order, Exit):
            return session.order
        await session.change()
    return start


def _tell_end(session: Session, ended: Ended) -> None:
    """Nothing of ours runs any more, but what cannot be ended: then the job cannot go on."""
    if ended.left:
        reason = f"what is left cannot be ended: {'; '.join(ended.left)}"
        fault = Fault(reason, UNAVAILABLE, Remedy.FINAL)
        obstacle = Obstacle(UNAVAILABLE, reason)
        verdict = Ended(fault, ended.uptime)
        session.tell(ranks=Ranks.NONE, table=None, verdict=verdict, obstacle=obstacle)
    elif isinstance(ended.decisive, Completed):
        session.tell(ranks=Ranks.SUCCEEDED, verdict=ended)
    else:
        session.tell(ranks=Ranks.NONE, table=None, verdict=ended)
