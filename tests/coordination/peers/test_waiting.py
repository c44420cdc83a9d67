"""When a server tells that it waits for its peers."""

from __future__ import annotations

import asyncio
import selectors

import anyio

from ascend_supervisor.coordination.agreement.situation import JobRules, Self
from ascend_supervisor.coordination.peers.session import Session
from ascend_supervisor.coordination.peers.store import Store
from ascend_supervisor.coordination.peers.waiting import telling_waits
from ascend_supervisor.events import Event
from ascend_supervisor.events.leftovers import WaitEnded
from ascend_supervisor.events.peers import PeersWaiting
from ascend_supervisor.restart_policy import Backoff, RestartBudget
from ascend_supervisor.tasks.clock import MonotonicClock
from tests.etcd.asking import at


class JumpingSelector(selectors.SelectSelector):
    """Nobody waits: a time limit has passed as soon as nothing else is to be done."""

    moment = 100.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.moment += timeout or 0.0
        return super().select(0)


class JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.moment


class LoopClock(MonotonicClock):
    def elapsed(self) -> float:
        return anyio.current_time()


def test_a_wait_is_told_after_two_seconds_then_seldom_and_anew_when_it_changes():
    budget = RestartBudget(limit=3, backoff=Backoff(0.0, 0.0))
    rules = JobRules(Self("mine", "here", 0), 2, budget, ttl=2.0, fence=15.0, timeout=60.0)
    events: list[Event] = []
    quiet = lambda _: None  # noqa: E731

    async def wait() -> None:
        async with at("http://127.0.0.1:1") as client:
            session = Session(Store(client, "job", "mine", 2), rules, quiet, quiet, quiet)
            async with telling_waits(session, LoopClock(), events.append):
                await anyio.sleep(101)
                session.waits_for = "their tables differ"
                session._wakes.tell()
                await anyio.sleep(99)

    anyio.run(wait, backend_options={"loop_factory": JumpingLoop})
    *told, end = events
    waits = [event for event in told if isinstance(event, PeersWaiting)]
    assert [round(event.waited_seconds) for event in waits] == [2, 32, 92, 103, 133, 193]
    assert [event.reason for event in waits] == [""] * 3 + ["their tables differ"] * 3
    assert isinstance(end, WaitEnded)
    assert round(end.waited_seconds) == 200
