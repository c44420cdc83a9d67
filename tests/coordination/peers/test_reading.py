"""What a server of many reads in a real etcd: what is near it, and all records when it must."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from ascend_supervisor.coordination.agreement import records
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
from ascend_supervisor.coordination.agreement.situation import JobRules, Self
from ascend_supervisor.coordination.agreement.view import View
from ascend_supervisor.coordination.peers.near import Near, in_turn, near_of
from ascend_supervisor.coordination.peers.store import Store, ViewReading
from ascend_supervisor.etcd.client import Etcd
from ascend_supervisor.etcd.values import Delete, Put, Transaction
from ascend_supervisor.restart_policy import RestartBudget
from tests.etcd.asking import at
from tests.etcd.servers import EtcdServer

SERVERS = 8
NEAR = Near(index=0, servers=SERVERS, limit=3600.0)
"""The next ones are 1, 2 and 3."""
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
        puts = tuple(Put(name, encode(record)) for name, record in kept.items())
        await self._client.transact(Transaction(then=puts))

    async def delete(self, *names: str) -> None:
        then = tuple(map(Delete, names))
        await self._client.transact(Transaction(then=then))

    async def near(self) -> View:
        return await self._reading.view(NEAR)

    async def all(self) -> View:
        return await self._whole.read()

    def forget(self) -> None:
        self._reading.forget()


@asynccontextmanager
async def bench_at(etcd: EtcdServer, *kept: Mapping[str, Record]) -> AsyncIterator[Bench]:
    """With these records, which were read."""
    async with at(etcd) as client:
        bench = Bench(client)
        for some in kept:
            await bench.put(some)
        assert await bench.near() == await bench.all()
        yield bench


async def test_what_is_near_is_up_to_date_and_the_rest_as_it_was(etcd):
    async with bench_at(etcd, epoch(Phase.GATHER), MEMBERS) as bench:
        await bench.delete(records.alive_key(1), records.alive_key(7))
        await bench.put(
            {
                records.ready_key(0, 0): PhaseMark("i0", "t"),
                records.ready_key(0, 5): PhaseMark("i5", "t"),
            }
        )
        view = await bench.near()
        assert set(view.alive) == set(range(SERVERS)) - {1}
        assert set(view.ready) == {0}
        assert records.alive_key(1) not in view.values
        assert view.revision == (await bench.all()).revision


async def test_all_is_read_when_all_are_ready(etcd):
    async with bench_at(etcd, epoch(Phase.GATHER), MEMBERS) as bench:
        for index in range(SERVERS - 1):
            await bench.put({records.ready_key(0, index): PhaseMark(f"i{index}", "t")})
            assert len((await bench.near()).prepared) <= 1
        await bench.put({records.ready_key(0, 7): PhaseMark("i7", "t")})
        view = await bench.near()
        assert view == await bench.all()
        assert len(view.prepared) == SERVERS


async def test_all_is_read_when_all_are_done(etcd):
    done = {records.done_key(0, index): PhaseMark(f"i{index}", "t") for index in range(SERVERS)}
    async with bench_at(etcd, epoch(Phase.RUN), MEMBERS) as bench:
        await bench.put(done)
        view = await bench.near()
        assert view == await bench.all()
        assert len(view.done) == SERVERS


async def test_a_new_epoch_comes_with_what_belongs_to_it(etcd):
    async with bench_at(etcd, epoch(Phase.RUN), MEMBERS, READY) as bench:
        await bench.put(epoch(Phase.GATHER, 1, "new"))
        view = await bench.near()
        assert view.epoch == Epoch("id", 1, Phase.GATHER, "new")
        assert view.about is not None
        assert view.about.stamp == "new"
        assert (view.ready, view.done) == ({}, {})
        assert set(view.members) == set(range(SERVERS))


async def test_a_server_that_was_replaced_while_nothing_was_read_is_not_taken_for_lost(etcd):
    gathered = {**MEMBERS}
    del gathered[records.alive_key(6)]
    async with bench_at(etcd, epoch(Phase.GATHER), gathered) as bench:
        await bench.put(member(6))
        await bench.put(epoch(Phase.RUN, 0, "new"))
        assert await bench.near() == await bench.all()


async def test_the_end_is_read_with_all_that_is_left(etcd):
    async with bench_at(etcd, epoch(Phase.RUN), MEMBERS) as bench:
        await bench.delete(records.server_key(6), records.alive_key(6))
        await bench.put(epoch(Phase.END, 0, "new"))
        assert await bench.near() == await bench.all()


async def test_after_an_answer_that_was_of_no_use_all_is_read_also_what_was_deleted(etcd):
    async with bench_at(etcd, epoch(Phase.RUN), MEMBERS, READY) as bench:
        await bench.delete(records.server_key(5), records.alive_key(5))
        await bench.put(
            {
                records.ready_key(0, 6): PhaseMark("another", "t"),
                records.done_key(0, 6): PhaseMark("i6", "t"),
            }
        )
        bench.forget()
        assert await bench.near() == await bench.all()


@pytest.mark.parametrize("longer", [False, True])
async def test_data_that_were_lost_and_put_again_are_read_as_they_are(etcd, longer):
    """At the same revisions or later ones, with another server at an index; ours comes last."""
    ours, others = member(0), {name: one for name, one in MEMBERS.items() if "/0" not in name}
    others[records.server_key(6)] = Member("id", "another", "elsewhere")
    async with bench_at(etcd, epoch(Phase.RUN), MEMBERS, READY) as bench:
        etcd.wipe()
        for _ in range(5 if longer else 1):
            await bench.put(epoch(Phase.RUN))
        for kept in (others, READY, ours):
            await bench.put(kept)
            view = await bench.near()
        assert view == await bench.all()


async def test_a_job_whose_data_are_lost_is_empty(etcd):
    async with bench_at(etcd, epoch(Phase.RUN), MEMBERS) as bench:
        etcd.wipe()
        assert (await bench.near()).values == {}


async def test_all_is_read_now_and_then(etcd):
    async with at(etcd) as client:
        bench, now_and_then = Bench(client), Near(0, SERVERS, limit=0.0)
        await bench.put({**epoch(Phase.RUN), **MEMBERS})
        reading = ViewReading(client.below(PREFIX))
        await reading.view(now_and_then)
        await bench.delete(records.alive_key(6))
        assert await reading.view(now_and_then) == await bench.all()


def test_the_next_ones_are_others_and_each_is_named_once():
    assert Near(7, SERVERS, 1.0).next_ones == (0, 1, 2)
    assert Near(1, 3, 1.0).next_ones == (2, 0)
    assert Near(0, 1, 1.0).next_ones == ()


def test_servers_that_wait_for_the_same_delay_look_one_after_the_other():
    memory = replace(memory_at(0.0), about=About("s", "", delay=3.0), phase_seen=100.0)
    looks = [in_turn(103.0, memory, Near(index, 1250, 15.0)) for index in range(1250)]
    assert looks == sorted(set(looks))
    assert looks[0] == 103.0
    assert looks[-1] < 108.0
    assert in_turn(102.0, memory, Near(9, 1250, 15.0)) == 102.0
    assert in_turn(103.0, memory, None) == 103.0


def test_who_reads_little_has_an_index_in_a_job_of_many():
    rules = JobRules(Self("i0", "place", 5), 65, RestartBudget(1))
    memory = memory_at(0.0)
    assert near_of(memory, rules, 64) == Near(5, 65, rules.ttl)
    assert near_of(replace(memory, index=7), rules, 64) == Near(7, 65, rules.ttl)
    assert near_of(memory, rules, 65) is None
    assert near_of(memory, replace(rules, own=Self("i0", "place")), 64) is None
