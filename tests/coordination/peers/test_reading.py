"""What a server of many reads in a real etcd: what is near it, and all records when it must."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import cast

import pytest
from msgspec.structs import replace

from ascend_supervisor.coordination.agreement import records, rosters
from ascend_supervisor.coordination.agreement.memory import memory_at
from ascend_supervisor.coordination.agreement.records import (
    About,
    Beat,
    Epoch,
    Member,
    Phase,
    PhaseMark,
    Record,
    Seat,
    encode,
)
from ascend_supervisor.coordination.agreement.situation import JobRules, Self, Situation
from ascend_supervisor.coordination.agreement.view import View
from ascend_supervisor.coordination.peers.near import (
    Look,
    Looks,
    Near,
    in_turn,
    look_of,
    near_of,
)
from ascend_supervisor.coordination.peers.store import Store
from ascend_supervisor.coordination.peers.view_reading import ViewReading, values_of
from ascend_supervisor.etcd.client import Etcd
from ascend_supervisor.etcd.values import (
    Delete,
    Get,
    Key,
    KeyValue,
    Put,
    Transaction,
    TransactionAnswer,
)
from ascend_supervisor.etcd.wire import watch_body
from ascend_supervisor.restart_policy import RestartBudget
from tests.etcd.asking import at
from tests.etcd.servers import EtcdServer

SERVERS = 8
NEAR = Near(index=0, servers=SERVERS)
"""The next ones are 1, 2 and 3."""
LOOK = Look(NEAR, is_due=True, jobs=("id",))
PREFIX = records.job_prefix("job")
ROSTER = tuple(Seat(f"i{index}", "place") for index in range(SERVERS))


def epoch(phase: Phase, generation: int = 0, stamp: str = "s") -> dict[str, Record]:
    return {
        records.EPOCH_KEY: Epoch("id", generation, phase, stamp),
        records.ABOUT_KEY: About(stamp, "", ROSTER),
    }


def member(index: int) -> dict[str, Record]:
    return {
        records.server_key(index): Member("id", f"i{index}", "place"),
        records.alive_key(index): Beat(f"i{index}"),
    }


MEMBERS = {name: one for index in range(SERVERS) for name, one in member(index).items()}
READY = {records.ready_key(0, index): PhaseMark(f"i{index}", "table") for index in range(SERVERS)}


class Bench:
    """A job in an etcd, its records put by the test, and what a server reads of it."""

    def __init__(self, client: Etcd) -> None:
        self._whole = Store(client, "job", "i0", 10)
        self._client = client.below(PREFIX)
        self._reading = ViewReading(self._client)

    async def put(self, kept: Mapping[str, Record]) -> None:
        await self.put_bytes({name: encode(record) for name, record in kept.items()})

    async def put_bytes(self, kept: Mapping[str, bytes]) -> None:
        puts = tuple(Put(name, value) for name, value in kept.items())
        await self._client.transact(Transaction(then=puts))

    async def delete(self, *names: str) -> None:
        then = tuple(map(Delete, names))
        await self._client.transact(Transaction(then=then))

    def told(self, put: Mapping[str, bytes]) -> About | None:
        return self._reading.told([KeyValue(name, value, 0, 0) for name, value in put.items()])

    async def near(self, look: Look = LOOK) -> View:
        return await self._reading.view(look)

    def hear(self) -> Heard:
        """What is near is read anew from now on, and each answer is kept."""
        heard = Heard(self._client)
        self._reading = ViewReading(cast("Etcd", heard))
        return heard

    async def all(self) -> View:
        return await self._whole.read()

    async def reads_all(self, look: Look = LOOK) -> bool:
        """Whether the view is that of everybody; what it tells is true in any case."""
        view, whole = await self.near(look), await self.all()
        assert (view.epoch, view.about, view.revision) == (whole.epoch, whole.about, whole.revision)
        if view.known is None:
            assert view == whole
            return True
        for index in view.known:
            told = ((one.members, one.alive, one.ready, one.done) for one in (view, whole))
            assert len({tuple(each.get(index) for each in one) for one in told}) == 1
        assert view.values.items() <= whole.values.items()
        return False


@asynccontextmanager
async def bench_at(etcd: EtcdServer, *kept: Mapping[str, Record]) -> AsyncIterator[Bench]:
    """With these records, which were read."""
    async with at(etcd) as client:
        bench = Bench(client)
        for some in kept:
            await bench.put(some)
        await bench.near()
        yield bench


async def test_what_is_near_is_read_and_of_the_others_nothing(etcd):
    async with bench_at(etcd, epoch(Phase.GATHER), MEMBERS) as bench:
        await bench.delete(records.alive_key(1), records.alive_key(7))
        await bench.put(
            {
                records.ready_key(0, 0): PhaseMark("i0", "t"),
                records.ready_key(0, 5): PhaseMark("i5", "t"),
            }
        )
        assert not await bench.reads_all()
        view = await bench.near()
        assert view.known == frozenset({0})
        assert set(view.members) == {0}
        assert set(view.alive) == {0, 2, 3}
        assert set(view.ready) == {0}


@pytest.mark.parametrize("phase", [Phase.GATHER, Phase.RUN])
async def test_all_is_read_when_all_are_ready_or_done_by_who_is_to_write_what_follows(etcd, phase):
    key = records.ready_key if phase is Phase.GATHER else records.done_key
    async with bench_at(etcd, epoch(phase), MEMBERS) as bench:
        for index in range(SERVERS - 1):
            await bench.put({key(0, index): PhaseMark(f"i{index}", "t")})
            assert not await bench.reads_all()
        await bench.put({key(0, 7): PhaseMark("i7", "t")})
        assert not await bench.reads_all(Look(NEAR, jobs=("id",)))
        assert await bench.reads_all()


async def test_a_new_epoch_comes_with_what_belongs_to_it(etcd):
    async with bench_at(etcd, epoch(Phase.RUN), MEMBERS, READY) as bench:
        await bench.put(epoch(Phase.GATHER, 1, "new"))
        view = await bench.near()
        assert view.epoch == Epoch("id", 1, Phase.GATHER, "new")
        assert view.about is not None
        assert view.about.stamp == "new"
        assert (view.ready, view.done) == ({}, {})
        assert not await bench.reads_all()


async def test_of_a_roster_in_blocks_those_are_read_that_have_changed(etcd):
    roster = tuple(Seat(f"{index:016x}", f"place {index}") for index in range(SERVERS))
    async with bench_at(etcd, epoch(Phase.GATHER), MEMBERS) as bench:
        for number in range(3):
            roster = (*roster[:6], Seat(f"{number}", "elsewhere"), roster[7])
            about, blocks = rosters.in_blocks(About(f"{number}", "", roster), 2)
            run = Epoch("id", 0, Phase.RUN, f"{number}")
            told = {records.EPOCH_KEY: encode(run), records.ABOUT_KEY: encode(about)}
            changed = blocks if number == 0 else {"roster/3": blocks["roster/3"]}
            await bench.put_bytes(told | changed)
            assert len(blocks) == 4
            assert not await bench.reads_all()
            view = await bench.near()
            assert view.about is not None
            assert view.about.roster == roster


async def test_what_is_told_is_enough_where_the_roster_is_known(etcd):
    about, blocks = rosters.in_blocks(About("s", "", ROSTER), 2)
    run = {records.EPOCH_KEY: encode(Epoch("id", 0, Phase.RUN, "s"))}
    async with bench_at(etcd, MEMBERS) as bench:
        await bench.put_bytes(run | {records.ABOUT_KEY: encode(about)} | blocks)
        await bench.near()
        later = replace(about, stamp="later")
        found = bench.told({records.ABOUT_KEY: encode(later)})
        assert found == replace(later, roster=ROSTER)
        assert bench.told({records.ABOUT_KEY: encode(replace(later, digest="another"))}) is None
        assert bench.told({records.ABOUT_KEY: b"junk"}) is None
        assert bench.told({records.alive_key(1): b""}) is None
        assert bench.told({}) is None


async def test_a_block_that_a_stranger_writes_is_no_roster(etcd):
    about, blocks = rosters.in_blocks(About("s", "", ROSTER), 2)
    run = {records.EPOCH_KEY: encode(Epoch("id", 0, Phase.RUN, "s"))}
    async with bench_at(etcd, MEMBERS) as bench:
        await bench.put_bytes(run | {records.ABOUT_KEY: encode(about)} | blocks)
        assert not await bench.reads_all()
        for junk in (b"junk", blocks["roster/0"]):
            await bench.put_bytes({"roster/1": junk})
            assert await bench.reads_all()
            assert "roster/" in (await bench.near()).damaged_epoch
        await bench.delete("roster/1")
        assert "roster/1" in (await bench.near()).damaged_epoch


async def test_a_next_one_that_seems_to_be_lost_is_read_closely(etcd):
    async with bench_at(etcd, epoch(Phase.RUN), MEMBERS) as bench:
        assert (await bench.near()).known == frozenset({0})
        await bench.delete(records.alive_key(2))
        await bench.put({records.done_key(0, 3): PhaseMark("i3", "t")})
        assert not await bench.reads_all()
        view = await bench.near()
        assert view.known == frozenset({0, 2})
        assert (set(view.members), set(view.done)) == ({0, 2}, set())
        await bench.put(member(2))
        assert not await bench.reads_all()
        assert (await bench.near()).known == frozenset({0})


async def test_who_leaves_knows_of_another_one_that_lives(etcd):
    leaves = Look(NEAR, leaves=True, jobs=("id",))
    async with bench_at(etcd, epoch(Phase.GATHER), MEMBERS) as bench:
        assert set((await bench.near(leaves)).living) == {0, 1, 2, 3}
        await bench.delete(*map(records.alive_key, (1, 2, 3)))
        assert await bench.reads_all(leaves)
        assert set((await bench.near(leaves)).living) == {0, 4, 5, 6, 7}


async def test_the_end_of_its_own_job_is_read_alone_and_that_of_another_with_all(etcd):
    async with bench_at(etcd, epoch(Phase.RUN), MEMBERS) as bench:
        await bench.delete(records.server_key(6), records.alive_key(6))
        end = Epoch("id", 0, Phase.END, "new", 3)
        await bench.put({**epoch(Phase.RUN, 0, "new"), records.EPOCH_KEY: end})
        assert not await bench.reads_all()
        assert await bench.reads_all(Look(NEAR))


async def test_no_end_of_success_is_believed_by_a_server_whose_ranks_run(etcd):
    async with bench_at(etcd, epoch(Phase.RUN), MEMBERS) as bench:
        end = Epoch("id", 0, Phase.END, "new")
        await bench.put({**epoch(Phase.RUN, 0, "new"), records.EPOCH_KEY: end})
        assert (await bench.near()).epoch is None
        await bench.put({records.done_key(0, 0): PhaseMark("i0", "t")})
        assert (await bench.near()).epoch == end


class Heard:
    """A client whose answers are kept."""

    def __init__(self, client: Etcd) -> None:
        self._client = client
        self.answer: dict[str, bytes] = {}
        self.parts = 0

    async def read(self, *gets: Get) -> TransactionAnswer:
        return await self.transact(Transaction(then=gets))

    async def transact(self, transaction: Transaction) -> TransactionAnswer:
        answer = await self._client.transact(transaction)
        self.answer = values_of(answer.got)
        self.parts = len(answer.got)
        return answer


async def test_where_nothing_has_changed_etcd_sends_no_record(etcd):
    blocks = {"roster/0": b"block"}
    async with bench_at(etcd, epoch(Phase.RUN), MEMBERS, READY) as bench:
        await bench.put_bytes(blocks)
        heard = bench.hear()
        for look in (LOOK, replace(LOOK, wants_all=True)):
            assert await bench.reads_all(look) == look.wants_all
            assert heard.answer
            for number in range(2):
                await bench.put_bytes({f"elsewhere/{number}": b""})
                assert await bench.reads_all(look) == look.wants_all
                assert not heard.answer
                assert not heard.parts or look.wants_all


@pytest.mark.parametrize("name", ["epoch", "about", "roster/0", "server/0", "alive/3", "done/0/7"])
async def test_whatever_changes_near_by_or_is_counted_is_noticed(etcd, name):
    junk = {name: b"junk"}
    async with bench_at(etcd, epoch(Phase.RUN), MEMBERS, READY) as bench:
        heard = bench.hear()
        await bench.near()
        await bench.near()
        assert not heard.parts
        await bench.put_bytes(junk)
        await bench.near()
        assert heard.parts


async def test_what_is_near_and_has_not_changed_is_not_sent_again(etcd):
    """But for our own ``alive``, which shows that etcd has its data."""
    async with bench_at(etcd, epoch(Phase.RUN), MEMBERS, READY) as bench:
        heard = bench.hear()
        before = await bench.near()
        for changed in ({records.alive_key(2): Beat("another")}, epoch(Phase.RUN, 0, "new")):
            await bench.put(changed)
            assert not await bench.reads_all()
            closely = {name for name in heard.answer if name.endswith("/2")}
            assert set(heard.answer) - closely - set(changed) == {records.alive_key(0)}
        await bench.put(member(2) | epoch(Phase.RUN))
        assert not await bench.reads_all()  # 2 was read closely once more
        assert (await bench.near()).values == before.values
        await bench.delete(records.alive_key(3), records.ready_key(0, 0))
        assert not await bench.reads_all()


@pytest.mark.parametrize("longer", [False, True])
async def test_what_is_near_is_read_anew_where_data_were_lost_and_put_again(etcd, longer):
    ours = member(0)
    others = {name: one for name, one in MEMBERS.items() if not name.endswith("/0")}
    async with bench_at(etcd, epoch(Phase.RUN), MEMBERS, READY) as bench:
        assert not await bench.reads_all()
        etcd.wipe()
        for _ in range(5 if longer else 1):
            await bench.put(epoch(Phase.RUN))
        for kept in (others | {records.alive_key(2): Beat("another")}, READY, ours):
            await bench.put(kept)
        assert not await bench.reads_all()
        assert (await bench.near()).alive[2] == "another"


@pytest.mark.parametrize("longer", [False, True])
async def test_data_that_were_lost_and_put_again_are_read_as_they_are(etcd, longer):
    """At the same revisions or later ones, with another server at an index; ours comes last."""
    ours, others = member(0), {name: one for name, one in MEMBERS.items() if "/0" not in name}
    others[records.server_key(6)] = Member("id", "another", "elsewhere")
    async with bench_at(etcd, epoch(Phase.RUN), MEMBERS, READY) as bench:
        assert await bench.reads_all(replace(LOOK, wants_all=True))
        etcd.wipe()
        for _ in range(5 if longer else 1):
            await bench.put(epoch(Phase.RUN))
        for kept in (others, READY, ours):
            await bench.put(kept)
            await bench.reads_all()
            assert await bench.reads_all(replace(LOOK, wants_all=True))


async def test_a_job_whose_data_are_lost_is_empty(etcd):
    async with bench_at(etcd, epoch(Phase.RUN), MEMBERS) as bench:
        etcd.wipe()
        assert (await bench.near()).values == {}


def test_the_next_ones_are_others_and_each_is_named_once():
    assert Near(7, SERVERS).next_ones == (0, 1, 2)
    assert Near(1, 3).next_ones == (2, 0)
    assert Near(0, 1).next_ones == ()


def test_what_is_watched_fits_into_what_the_gateway_reads_at_once():
    ranges = tuple(map(Key, Near(1247, 1250).watched))
    body = watch_body(ranges, 10**9, records.job_prefix("a" * 48))
    assert len(ranges) == 3
    assert len(body) <= 512


def test_servers_that_wait_for_the_same_delay_look_one_after_the_other():
    memory = replace(memory_at(0.0), about=About("s", "", delay=3.0), phase_seen=100.0)
    looks = [in_turn(103.0, memory, Near(index, 1250), 60.0) for index in range(1250)]
    assert looks[:3] == [103.0, 103.25, 103.5]
    assert looks == sorted(looks)
    assert looks[-1] == 118.0
    assert in_turn(102.0, memory, Near(9, 1250), 60.0) == 102.0
    assert in_turn(103.0, memory, None, 60.0) == 103.0


RULES = JobRules(Self("i0", "place", 5), 1250, RestartBudget(1), ttl=15.0, timeout=600.0)
GATHERS = replace(
    memory_at(0.0), epoch=Epoch("id", 1, Phase.GATHER, "s"), about=About("s", ""), phase_seen=100.0
)


def look(index: int, now: float, looks: Looks, rules: JobRules = RULES) -> Look:
    return look_of(Near(index, rules.servers), GATHERS, Situation(), rules, looks, now)


def test_when_all_are_ready_the_servers_are_to_read_all_one_after_the_other():
    looks = Looks(stamp="s", since=100.0)
    assert [look(index, 100.6, looks).is_due for index in range(5)] == [True] * 3 + [False] * 2
    looks.all_read = 95.0
    assert not look(0, 100.6, looks).is_due


def test_in_a_long_wait_all_servers_together_read_all_as_often_as_those_of_a_smaller_job():
    looks, seen = [Looks() for _ in range(1250)], [0] * 5
    for now in range(100, 175):
        for index, one in enumerate(looks):
            if look(index, now, one).wants_all:
                one.all_read = now
                seen[(now - 100) // 15] += 1
    assert seen[0] == 0
    assert all(60 <= one <= 70 for one in seen[1:])


def test_nobody_gives_up_before_it_has_read_all():
    memory = replace(GATHERS, only_ready=200.0)
    late = look_of(Near(9, 1250), memory, Situation(), RULES, Looks(all_read=790.0), 800.0)
    assert late.wants_all


def test_what_a_cluster_does_is_seen_by_all_within_a_ttl():
    rules, looks = replace(RULES, verdict=30.0), Looks(all_read=115.0)
    assert [look(1249, now, looks, rules).wants_all for now in (129.0, 131.0)] == [False, True]


def test_who_reads_little_has_an_index_in_a_job_of_many():
    rules = JobRules(Self("i0", "place", 5), 65, RestartBudget(1))
    memory = memory_at(0.0)
    assert near_of(memory, rules, 64) == Near(5, 65)
    assert near_of(replace(memory, index=7), rules, 64) == Near(7, 65)
    assert near_of(memory, rules, 65) is None
    assert near_of(memory, replace(rules, own=Self("i0", "place")), 64) is None
