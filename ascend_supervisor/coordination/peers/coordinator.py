"""The servers of a job decide together, through etcd: one generation, one budget, one cause."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from math import inf
from time import time

import anyio
from msgspec.structs import replace

from ascend_supervisor.coordination.agreement.acts import EndRanks, Exit, StartRanks
from ascend_supervisor.coordination.agreement.history import FailureLimit
from ascend_supervisor.coordination.agreement.situation import JobRules, Ranks
from ascend_supervisor.coordination.agreement.situation import Self as OwnServer
from ascend_supervisor.coordination.peers.compared_facts import ComparedFacts
from ascend_supervisor.coordination.peers.ends import (
    budget_at,
    ended_by,
    fault_of,
    pending_failure,
    restart_at,
    with_own_failure,
)
from ascend_supervisor.coordination.peers.farewell import (
    may_leave,
    say_farewell,
    tell_end,
    unable_to_start,
)
from ascend_supervisor.coordination.peers.kept_failures import (
    failure_on,
    keep_failure,
    kept_failures,
)
from ascend_supervisor.coordination.peers.meeting import PeersMeeting, settings_of
from ascend_supervisor.coordination.peers.requests import Troubles, boot_time, first_answer
from ascend_supervisor.coordination.peers.session import Session
from ascend_supervisor.coordination.peers.shared_steps import SHARE_SECONDS, share_steps, take_over
from ascend_supervisor.coordination.peers.store import Store
from ascend_supervisor.coordination.peers.tables import Tables, machine_of, place_beside
from ascend_supervisor.coordination.peers.waiting import telling_waits
from ascend_supervisor.coordination.peers.words import seen
from ascend_supervisor.events import Report
from ascend_supervisor.events.peers import PeersJoined, PeersReplaced
from ascend_supervisor.life import JobSeen, Start
from ascend_supervisor.outcome import (
    Completed,
    Ended,
    Fault,
    Interrupted,
    Outcome,
    Reached,
)
from ascend_supervisor.restart_policy import Decision, Stop
from ascend_supervisor.tasks.clock import Clock
from ascend_supervisor.tasks.race import beside, first
from ascend_supervisor.tasks.threads import aside

_Order = StartRanks | Exit


class Peers:
    """``tables`` says where the rank table comes from.

    ``fence`` is the guardian's: it is called with the time, in seconds of CLOCK_BOOTTIME, at which
    our ranks must be gone.
    """

    def __init__(
        self,
        meeting: PeersMeeting,
        tables: Tables,
        fence: Callable[[float], None],
        clock: Clock,
        report: Report,
    ) -> None:
        self._meeting = meeting
        self._tables = tables
        self._fence = fence
        self._clock = clock
        self._report = report
        self._session: Session | None = None
        self._incarnation = secrets.token_hex(8)
        self._servers: frozenset[str] = frozenset()
        """The processes that have started the latest generation here."""
        self._servers_before: frozenset[str] = frozenset()
        self._compared: ComparedFacts | None = None

    @asynccontextmanager
    async def joined(self) -> AsyncIterator[None]:
        meeting, error = self._meeting, None
        try:
            async with meeting.etcd() as etcd, beside() as self._tasks:
                self._store = Store(etcd, meeting.name, self._incarnation, round(meeting.ttl))
                try:
                    yield
                except Exception as raised:
                    error = raised
                    raise
                finally:
                    await self._leave(error)
        finally:
            self._fence(inf)

    async def _leave(self, error: Exception | None) -> None:
        has_defect = self._tasks.cancel_scope.cancel_called
        if self._session is not None and not has_defect:
            with anyio.CancelScope(shield=True):
                await say_farewell(self._session, self._store, error, self._meeting.ttl)

    def seen(self) -> JobSeen | None:
        session = self._session
        if session is None or session.memory.read is None:
            return None
        now = boot_time()
        servers = seen(session.others.words, self._tables.labels, now)
        age = max(0.0, now - session.memory.read)
        return JobSeen(self._meeting.name, session.memory.index, age, servers)

    def end_wait(self) -> bool:
        return False

    async def gather(self) -> Start | Stop:
        """Wait until all servers are ready; raises a Refusal."""
        session, tables = self._session or await self._join(), self._tables
        order = await self._ordered(session, tables.get_ready)
        if order is None:
            async with telling_waits(session, self._clock, self._report):
                order = await self._ordered(session, tables.stay_ready)
        if isinstance(order, StartRanks):
            if order.generation and not self._servers and self._meeting.steps is not None:
                await take_over(self._store, self._meeting.steps)
            at = tables.agreed(session, order.roster)
            if self._compared is not None:
                await self._compared.before_start(at.node_rank, len(order.roster), self._tasks)
            now = boot_time()
            left = budget_at(session.memory, self._meeting.budget, now).left(now)
            return Start(order.generation, at.found, at.node_rank, at.entry, left)
        assert order is not None  # noqa: S101  (``stay_ready`` does not return)
        return ended_by(order, session.memory)

    async def _ordered(
        self, session: Session, meanwhile: Callable[[Session], Awaitable[None]]
    ) -> _Order | None:
        """What starts on all servers, or the end of this one; None if ``meanwhile`` ends first.

        ``still`` says whether it still holds.
        """

        async def order() -> _Order | None:
            while (start := session.start) is None:
                if isinstance(session.order, Exit):
                    return session.order
                await session.change()
            return start

        return await first(order, partial(meanwhile, session))

    async def still(self, start: Start) -> bool:
        session = self._joined
        if session.start is None or session.start.generation != start.generation:
            return False
        self._servers_before = self._servers
        self._servers = frozenset(seat.incarnation for seat in session.start.roster)
        session.begin(start.generation)
        self._tell_left(session, start.generation)
        return True

    def _tell_left(self, session: Session, generation: int) -> None:
        """Which servers have left their places to spares before this generation."""
        about = session.memory.about
        for one in about.left if about is not None else ():
            if one.generation == generation and one.incarnation not in self._servers:
                (host,) = session.others.hosts((one.server,))  # of many servers seldom known
                self._report(PeersReplaced(one.server, one.host, host, one.reason))

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
                reached = Reached() if self._meeting.steps is None else self._meeting.steps.reached
                told = {"verdict": Ended(verdict, uptime), "reached": reached}
                session.tell(ranks=Ranks.FAILED, unable=unable_to_start(verdict), **told)
        while not isinstance(session.order, (EndRanks, Exit)):
            await session.change()

    async def settle(self, start: Start, ended: Ended) -> Decision:
        session = self._joined
        tell_end(session, ended)
        while not isinstance(session.order, Exit):
            epoch = session.memory.epoch
            if epoch is not None and epoch.generation > start.generation:
                session.tell(ranks=Ranks.NONE, table=None)
                await may_leave(session)
                await self._price(session)
                if not isinstance(session.order, Exit):
                    await self._keep_failure(session)
                    return restart_at(session.memory, self._meeting.budget, boot_time())
                break
            if isinstance(session.order, EndRanks):  # all of ours have ended: nothing is left to do
                session.tell(ranks=Ranks.NONE, table=None)
            await session.change()
        await self._keep_failure(session)
        stop = with_own_failure(ended_by(session.order, session.memory), ended)
        about = session.memory.about
        return stop if about is None else replace(stop, stuck=about.charges.stuck)

    async def _price(self, session: Session) -> None:
        """Wait until the price of the restart is known; without all servers only for so long."""
        end = session.memory.phase_seen + self._meeting.verdict + self._meeting.ttl
        with anyio.move_on_after(max(0.0, end - boot_time())):
            while self.pending is not None and not isinstance(session.order, Exit):
                await session.change()

    async def _keep_failure(self, session: Session) -> None:
        """On this machine, too, if the failure was on it."""
        failure = failure_on(self._machine, session.memory.about)
        if failure is not None:
            file = self._meeting.state_file
            await aside(partial(keep_failure, file, self._machine, failure, time()))

    def hear(self, fault: Fault | None, retry_time: int, confirmed: int | None) -> None:
        """What the cluster says at present: of our ranks (None: nothing), and its RetryTime.

        ``confirmed`` is one that belongs to the last restart, as far as is known here.
        """
        session = self._session
        told = {"cluster": fault, "retry_time": retry_time, "confirmed": confirmed}
        if session is not None and any(
            getattr(session.situation, name) != value for name, value in told.items()
        ):
            session.tell(**told)

    def take_back(self) -> None:
        """Something forbids a start here: the others are not to count on us for the next one."""
        session = self._session
        if session is None or session.situation.table is None:
            return
        if session.situation.ranks is Ranks.NONE and session.start is None:
            session.tell(table=None)

    def has_newcomer_with(self, digest: str) -> bool:
        """Whether a server that was not there before is ready with this table."""
        session = self._session
        return session is not None and digest in session.others.tables_of_newcomers

    @property
    def answered(self) -> frozenset[int]:
        """The values of RetryTime after which the job has restarted."""
        about = self._session.memory.about if self._session is not None else None
        return frozenset(about.answered) if about is not None else frozenset()

    @property
    def was_replaced(self) -> bool:
        """Whether other processes take part in the latest generation than in the one before."""
        return bool(self._servers_before) and self._servers != self._servers_before

    @property
    def was_told(self) -> bool:
        """Whether a server has seen that the cluster recovers, before the latest restart."""
        about = self._joined.memory.about
        return about is not None and about.by_cluster

    @property
    def pending(self) -> str | None:
        """The failure of which the cluster may say that it is its own; None if there is none."""
        return pending_failure(self._joined.memory)

    async def _join(self) -> Session:
        """Raises Unavailable if etcd does not answer within the timeout of the peers."""
        meeting, part = self._meeting, await self._tables.part()
        troubles = Troubles(self._report, self._ranks_run)
        addresses = await first_answer(self._reached, meeting.timeout, troubles)
        place = await aside(partial(place_beside, meeting.state_file))
        self._machine = meeting.machine or machine_of(place)
        kept = await aside(partial(kept_failures, meeting.state_file, self._machine, time()))
        own = OwnServer(self._incarnation, place, part.index, addresses, part.devices, meeting.host)
        rules = JobRules(
            own=replace(own, machine=self._machine, failures=kept),
            servers=part.servers,
            budget=self._meeting.budget,
            settings=settings_of(meeting, part.servers),
            ttl=meeting.ttl,
            fence=meeting.fence,
            timeout=meeting.timeout,
            verdict=meeting.verdict,
            leave_after=FailureLimit(*meeting.leave_after),
        )
        session = self._session = Session(
            self._store, rules, self._fence, troubles.tell, troubles.tell_damage, meeting.few
        )
        for task in (session.run, session.stay_alive, session.watch):
            self._tasks.start_soon(task)
        if meeting.steps is not None:
            seconds = SHARE_SECONDS * max(1.0, part.servers / meeting.few)
            self._tasks.start_soon(share_steps, self._store, meeting.steps, self._clock, seconds)
        if meeting.facts is not None:
            compared = ComparedFacts(meeting.facts, self._store, session, meeting.few, self._report)
            self._tasks.start_soon(compared.put, meeting.host, self._incarnation)
            self._compared = compared
        self._report(PeersJoined(meeting.name, part.index, rules.servers))
        return session

    async def _reached(self) -> tuple[str, ...]:
        """The addresses at which the others reach us, once etcd answers; raises EtcdError."""
        await self._store.reached()
        return await self._tables.addresses()

    def _ranks_run(self) -> bool:
        session = self._session
        return session is not None and session.situation.ranks is not Ranks.NONE

    @property
    def _joined(self) -> Session:
        assert self._session is not None  # noqa: S101  (set before the first Start)
        return self._session
