"""A session at a real etcd that does what it is asked, while its answer is lost."""

from __future__ import annotations

import time
from itertools import pairwise

import anyio
import pytest

from ascend_supervisor.coordination.agreement import acts, records
from ascend_supervisor.coordination.agreement.situation import JobRules, Obstacle, Ranks, Self
from ascend_supervisor.coordination.agreement.view import MOST_SERVERS, View
from ascend_supervisor.coordination.peers.near import Look
from ascend_supervisor.coordination.peers.requests import boot_time
from ascend_supervisor.coordination.peers.session import Session
from ascend_supervisor.coordination.peers.store import Store, WriteAnswer
from ascend_supervisor.errors import UNAVAILABLE
from ascend_supervisor.etcd.client import Etcd
from ascend_supervisor.etcd.failures import Unreachable
from ascend_supervisor.etcd.values import Put, Transaction
from ascend_supervisor.outcome import Ended, Fault, NotStarted, Remedy
from ascend_supervisor.restart_policy import Backoff, RestartBudget
from ascend_supervisor.tasks.clock import RunningLoop
from tests.etcd.asking import SHORT, at

BUDGET = RestartBudget(limit=3, backoff=Backoff(0.0, 0.0))


class LosingAnswers(Store):
    """The first answer to a write of each kind of key is lost; the write has happened."""

    def __init__(self, client: Etcd) -> None:
        super().__init__(client, "job", "mine", 2)
        self.lost: set[str] = set()

    async def write(self, change: Transaction, look: Look | None = None) -> WriteAnswer:
        written = await super().write(change, look)
        kinds = {one.key.partition("/")[0] for one in change.then if isinstance(one, Put)}
        if written.has_succeeded and kinds - self.lost:
            self.lost |= kinds
            raise Unreachable("the answer is lost", may_have_happened=True)
        return written


@pytest.mark.parametrize("few", [64, 0])
async def test_lost_answers_keep_no_server_from_its_rank_table(etcd, few):
    rules = JobRules(Self("mine", "here", 0), 1, BUDGET, ttl=2.0, fence=15.0, timeout=60.0)
    async with at(etcd) as client, anyio.create_task_group() as tasks:
        store = LosingAnswers(client)
        quiet = lambda _: None  # noqa: E731
        session = Session(store, rules, quiet, quiet, quiet, few)
        session.tell(ranks=Ranks.NONE, table="digest")
        for task in (session.run, session.stay_alive, session.watch):
            tasks.start_soon(task)
        with anyio.fail_after(30):
            while session.start is None:
                await session.change()
        assert session.ready_with == "digest"
        assert records.READY in store.lost
        tasks.cancel_scope.cancel()


async def test_a_server_that_stood_still_without_etcd_says_that_it_was_not_confirmed():
    rules = JobRules(Self("mine", "here", 0), 1, BUDGET, ttl=2.0, fence=6.0, timeout=60.0)
    troubles: list[str | None] = []
    nobody_listens = "http://127.0.0.1:1"
    async with at(nobody_listens, deadline=SHORT) as client, anyio.create_task_group() as tasks:
        store = Store(client, "job", "mine", 2)
        session = Session(store, rules, lambda _: None, troubles.append, lambda _: None)
        tasks.start_soon(session.run)
        with anyio.fail_after(30):
            while not troubles:
                await anyio.sleep(0.01)
            time.sleep(rules.patience)  # noqa: ASYNC251 (nothing of this process goes on)
            while session.order is None:
                await session.change()
        assert isinstance(session.order, acts.Exit)
        assert session.order.reason.startswith("etcd has not confirmed this server for")
        assert "no etcd answers" in session.order.reason
        tasks.cancel_scope.cancel()


class StandingStill(Store):
    """It writes no start: the request is never sent."""

    def __init__(self, client: Etcd, incarnation: str) -> None:
        super().__init__(client, "job", incarnation, LONG)
        self.was_to_start = anyio.Event()

    async def write(self, change: Transaction, look: Look | None = None) -> WriteAnswer:
        if any(one.key == records.EPOCH_KEY and b'"run"' in one.value for one in puts(change)):
            self.was_to_start.set()
            await anyio.sleep_forever()
        return await super().write(change, look)


LONG, DEADLINE = 40, 60.0
"""A TTL that is longer than the test may take."""
CALM = 1.0
"""Without a read for so long, a session waits for news."""
SERVERS = 3


def puts(change: Transaction) -> list[Put]:
    return [one for one in change.then if isinstance(one, Put)]


def session_of(
    store: Store, index: int, few: int, ttl: float = LONG, servers: int = SERVERS
) -> Session:
    """One with a number that no server of the job has is a spare."""
    given = index if index < servers else None
    own = Self(f"i{index}", f"place {index}", given)
    rules = JobRules(own, servers, BUDGET, ttl=ttl, fence=120.0, group=2)
    return Session(store, rules, lambda _: None, lambda _: None, lambda _: None, few)


async def start(session: Session) -> None:
    while session.start is None:
        await session.change()


@pytest.mark.parametrize("few", [64, 0])
async def test_servers_that_come_together_begin_at_once(etcd, few):
    async with at(etcd) as client, anyio.create_task_group() as tasks:
        sessions = []
        for index in range(SERVERS):
            session = session_of(Store(client, "job", f"i{index}", LONG), index, few)
            session.tell(table="digest")
            for task in (session.run, session.stay_alive, session.watch):
                tasks.start_soon(task)
            sessions.append(session)
        with anyio.fail_after(DEADLINE):
            for session in sessions:
                await start(session)
        tasks.cancel_scope.cancel()


UNABLE: dict[str, NotStarted | Fault] = {
    "this server is not fit for the job: NPU 3": NotStarted(UNAVAILABLE, "NPU 3"),
    "this server cannot start its ranks: no room": Fault("no room", UNAVAILABLE, is_of_server=True),
}


async def tell_unable(session: Session, why: str) -> None:
    """Some ranks may run then."""
    outcome = UNABLE[why]
    if isinstance(outcome, NotStarted):
        session.tell(
            generation=0,
            verdict=Ended(outcome, 0.0),
            obstacle=Obstacle(UNAVAILABLE, why),
            unable=why,
        )
        return
    session.begin(0)
    session.tell(ranks=Ranks.FAILED, verdict=Ended(outcome, 0.0), unable=why)
    while not isinstance(session.order, acts.EndRanks):
        await session.change()
    session.tell(ranks=Ranks.NONE, table=None)


@pytest.mark.parametrize("few", [64, 0])
@pytest.mark.parametrize("why", UNABLE)
async def test_a_server_that_is_unable_leaves_to_a_spare_also_one_of_many(etcd, few, why):
    """Although no failures are recorded here."""
    async with at(etcd) as client, anyio.create_task_group() as tasks:
        sessions = [
            session_of(Store(client, "job", f"i{index}", LONG), index, few, servers=2)
            for index in range(3)
        ]

        def begin(session: Session) -> None:
            session.tell(table="digest")
            for task in (session.run, session.stay_alive, session.watch):
                tasks.start_soon(task)

        healthy, sick, spare = sessions
        with anyio.fail_after(DEADLINE):
            for session in (healthy, sick):
                begin(session)
            for session in (healthy, sick):
                await start(session)
            begin(spare)  # only now: it would take any place
            while not spare.memory.offers:
                await spare.change()
            healthy.begin(0)
            await tell_unable(sick, why)
            while not isinstance(sick.order, acts.Exit):
                await sick.change()
            while not isinstance(healthy.order, acts.EndRanks):
                await healthy.change()
            healthy.tell(ranks=Ranks.NONE, table="digest")
            for session in (healthy, spare):
                await start(session)
        assert sick.order.reason == f"{why}; we have left our place to a spare"
        assert spare.start is not None
        assert [seat.incarnation for seat in spare.start.roster] == ["i0", "i2"]
        tasks.cancel_scope.cancel()


class Withholding(Store):
    """Reads that tell of an epoch of this order have no answer."""

    withheld: tuple[int, bool] | None = None

    def __init__(self, client: Etcd, incarnation: str) -> None:
        super().__init__(client, "job", incarnation, LONG)
        self.latest = 0.0

    async def read(self, look: Look | None = None, servers: int = MOST_SERVERS) -> View:
        view = await super().read(look, servers)
        self.latest = anyio.current_time()
        if view.epoch is not None and view.epoch.order == self.withheld:
            await anyio.sleep_forever()
        return view


async def test_one_of_many_hears_of_a_failure_and_of_the_next_start_without_reading(etcd):
    """Its next look by itself would be after TTL/2."""
    async with at(etcd) as client, anyio.create_task_group() as tasks:
        hears = Withholding(client, "i0")
        stores = [hears, *(Store(client, "job", f"i{index}", LONG) for index in (1, 2))]
        sessions = [session_of(store, index, 0) for index, store in enumerate(stores)]
        for session in sessions:
            session.tell(table="digest")
            for task in (session.run, session.stay_alive, session.watch):
                tasks.start_soon(task)
        with anyio.fail_after(DEADLINE):
            for session in sessions:
                await start(session)
                session.begin(0)
            while anyio.current_time() < hears.latest + CALM:
                await anyio.sleep(0.1)
            hears.withheld = 1, False
            fault = Fault("a failure of this test", 1, Remedy.CHARGED)
            sessions[1].tell(ranks=Ranks.FAILED, verdict=Ended(fault, 600.0))
            for session in sessions:
                while not isinstance(session.order, acts.EndRanks):
                    await session.change()
            hears.withheld = None
            for session in sessions:
                session.ready_with = ""
                session.tell(ranks=Ranks.NONE)
                while not session.ready_with:
                    await session.change()
                hears.withheld = 1, True
            for session in sessions:
                await start(session)
        assert sessions[0].start == sessions[1].start
        read = sessions[0].memory.read
        assert read is not None
        assert sessions[0].memory.phase_seen > read
        tasks.cancel_scope.cancel()


async def test_where_the_last_one_that_is_ready_stands_still_another_one_writes_the_start(etcd):
    """The others look every TTL/2, the first of them at once then."""
    async with at(etcd) as client, anyio.create_task_group() as tasks:
        still = StandingStill(client, "i2")
        stores = [*(Store(client, "job", f"i{index}", LONG) for index in range(2)), still]
        sessions = [session_of(store, index, 0, ttl=8.0) for index, store in enumerate(stores)]
        for session in sessions:
            for task in (session.run, session.stay_alive, session.watch):
                tasks.start_soon(task)
        with anyio.fail_after(DEADLINE):
            for session in sessions:
                session.tell(table="digest")
                while not session.ready_with:
                    await session.change()
            await still.was_to_start.wait()
            for session in sessions[:2]:
                await start(session)
        tasks.cancel_scope.cancel()


class Kept(Store):
    """When its lease was to be kept, in seconds of CLOCK_BOOTTIME."""

    def __init__(self, client: Etcd, ttl: int) -> None:
        super().__init__(client, "job", "i0", ttl)
        self.moments: list[float] = []

    async def keep_alive(self) -> bool:
        self.moments.append(boot_time())
        return True


HELD_UP, FREE = 2.0, 0.1
"""Seconds, again and again: so it was, at its worst, on a machine with a load of 15."""


def test_a_lease_is_kept_in_time_although_the_loop_is_held_up_again_and_again(etcd):
    """Most of that does not count in the loop's own time, but in etcd's."""
    ttl, times = 4, 5

    async def moments() -> list[float]:
        async with at(etcd) as client, anyio.create_task_group() as tasks:
            store = Kept(client, ttl)
            session = session_of(store, 0, 64, ttl=ttl, servers=1)
            session.tell(table="digest")
            for task in (session.run, session.stay_alive):
                tasks.start_soon(task)
            with anyio.fail_after(DEADLINE):
                await start(session)
            for _ in range(times):
                time.sleep(HELD_UP)  # noqa: ASYNC251 (nothing of this process goes on)
                await anyio.sleep(FREE)
            tasks.cancel_scope.cancel()
        return store.moments

    loop = RunningLoop()
    try:
        found = loop.run_until_complete(moments())
    finally:
        loop.close()
    assert len(found) >= times
    assert max(later - earlier for earlier, later in pairwise(found)) < ttl - 1
