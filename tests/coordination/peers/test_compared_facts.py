"""When a server looks for the facts of the others, at a real etcd."""

from __future__ import annotations

from collections.abc import Mapping

import anyio
from msgspec.structs import replace

from ascend_supervisor.coordination.agreement import records
from ascend_supervisor.coordination.agreement.memory import memory_at
from ascend_supervisor.coordination.agreement.records import Beat, Epoch, Phase
from ascend_supervisor.coordination.agreement.situation import JobRules, Self
from ascend_supervisor.coordination.agreement.writing import put
from ascend_supervisor.coordination.peers import facts
from ascend_supervisor.coordination.peers.compared_facts import SOON_SECONDS, ComparedFacts
from ascend_supervisor.coordination.peers.session import Session
from ascend_supervisor.coordination.peers.store import Store
from ascend_supervisor.etcd.client import Etcd
from ascend_supervisor.etcd.values import Transaction
from ascend_supervisor.events import Event
from ascend_supervisor.events.peers import PeersDiffer
from ascend_supervisor.restart_policy import Backoff, RestartBudget
from tests.etcd.asking import at

JOB = "an id"
DEADLINE = 60.0


class CountedLooks(Store):
    """After its first look another server tells ``late`` facts; None: it tells none."""

    def __init__(self, client: Etcd, late: Mapping[str, str] | None) -> None:
        super().__init__(client, "job", "i0", 40)
        self.looks = 0
        self._late = late

    async def count(self, *prefixes: str) -> tuple[int, ...]:
        found = await super().count(*prefixes)
        self.looks += 1
        if self.looks == 1 and self._late is not None:
            told = facts.to_put(self._late, "pod b", "i1", JOB)
            await self.write(Transaction(then=(told,)))
        return found


async def started(etcd, late: Mapping[str, str] | None) -> tuple[list[Event], int]:
    """What server 0 of two has told when it may start, and how often it has looked until then."""
    events: list[Event] = []

    async def known() -> Mapping[str, str]:
        return {"CANN": "8.0"}

    async with at(etcd) as client, anyio.create_task_group() as tasks:
        store = CountedLooks(client, late)
        for index in range(2):
            beat = put(records.alive_key(index), Beat(f"i{index}"), JOB)
            await store.write(Transaction(then=(beat,)))
        budget = RestartBudget(limit=3, backoff=Backoff(0.0, 0.0))
        rules = JobRules(Self("i0", "here", 0), 2, budget)
        session = Session(store, rules, lambda _: None, lambda _: None, lambda _: None)
        epoch = Epoch(JOB, 0, Phase.RUN, "s")
        session.memory = replace(memory_at(0.0), index=0, epoch=epoch)
        compared = ComparedFacts(known, store, session, 64, events.append)
        with anyio.fail_after(DEADLINE):
            await compared.put("pod a", "i0")
            await compared.before_start(0, 2, tasks)
        looks = store.looks
        tasks.cancel_scope.cancel()
    return events, looks


async def test_a_server_that_tells_its_facts_late_is_compared_before_the_start(etcd):
    (event,), _ = await started(etcd, {"CANN": "7.0"})
    assert isinstance(event, PeersDiffer)
    (clause,) = event.differences
    assert clause == "CANN differs: server 0 (pod a) has 8.0, server 1 (pod b) has 7.0"


async def test_one_that_is_late_and_alike_is_not_mentioned(etcd):
    assert await started(etcd, {"CANN": "8.0"}) == ([], 2)


async def test_one_that_tells_none_is_waited_for_only_so_long(etcd):
    assert await started(etcd, None) == ([], 1 + len(SOON_SECONDS))
    assert sum(SOON_SECONDS) == 3.0
