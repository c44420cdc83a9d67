"""Compares the facts of this server with those of the others, once, before its first ranks start.

Who finds a difference tells it, and no more: which of the servers is right, and whether the job
can live with it, only people know.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio
from anyio.abc import TaskGroup

from ascend_supervisor.coordination.agreement import records
from ascend_supervisor.coordination.agreement.records import Beat, DamagedRecord, decode
from ascend_supervisor.coordination.peers import facts
from ascend_supervisor.coordination.peers.facts import Facts
from ascend_supervisor.coordination.peers.session import Session
from ascend_supervisor.coordination.peers.store import Store
from ascend_supervisor.etcd.failures import EtcdError
from ascend_supervisor.etcd.values import Transaction
from ascend_supervisor.events import Report
from ascend_supervisor.events.peers import PeersDiffer

WAIT_SECONDS = 10.0
"""So long a start waits for what is known of this server; most of it is known by then."""
SOON_SECONDS = (0.1, 0.3, 0.8, 1.8)
"""Between these looks a start waits for those that have not told theirs: 3 s in all, because a
server may never tell any (--server-check off), and one that is slower waits for its own."""
LATER_SECONDS = (3.0, 30.0)
"""When they are looked for after that; the ranks run meanwhile."""

FactsOfServer = Callable[[], Awaitable[Facts]]


class ComparedFacts:
    """``few`` servers at most are all told what differs; of more, those that it concerns."""

    def __init__(
        self, find: FactsOfServer, store: Store, session: Session, few: int, report: Report
    ) -> None:
        self._find = find
        self._store = store
        self._session = session
        self._few = few
        self._report = report
        self._facts: Facts = {}
        self._job = ""
        self._are_put = anyio.Event()
        self._is_begun = False

    async def put(self, host: str, incarnation: str) -> None:
        """Tell the others the facts of this server, as soon as it has an index.

        ``host`` names it to people. What cannot be found or written is left out.
        """
        with suppress(Exception):  # a defect here ends no job
            self._facts = await self._find()
        memory = self._session.memory
        while memory.index is None or memory.epoch is None:
            await self._session.change()
            memory = self._session.memory
        if self._facts:
            with suppress(EtcdError):
                self._job = memory.epoch.job
                put = facts.to_put(self._facts, host, incarnation, self._job)
                await self._store.write(Transaction(then=(put,)))
                self._are_put.set()

    async def before_start(self, index: int, servers: int, tasks: TaskGroup) -> None:
        """Tell what differs, once; who has told nothing yet is looked for by one of ``tasks``.

        A job of so many ``servers`` has this one at ``index``.
        """
        if self._is_begun:
            return
        self._is_begun = True
        is_done = False
        with anyio.move_on_after(WAIT_SECONDS):
            await self._are_put.wait()
            is_done = await self._look(index, servers)
            for seconds in SOON_SECONDS:
                if not is_done:
                    await anyio.sleep(seconds)
                    is_done = await self._look(index, servers)
        if not is_done:
            tasks.start_soon(self._look_later, index, servers)

    async def _look_later(self, index: int, servers: int) -> None:
        for seconds in LATER_SECONDS:
            await anyio.sleep(seconds)
            if self._are_put.is_set() and await self._look(index, servers):
                return

    async def _look(self, index: int, servers: int) -> bool:
        """Whether there is nothing more to look for."""
        with suppress(EtcdError):
            prefixes = facts.prefixes(self._facts, self._job)
            every, same = await self._store.count(*prefixes)
            if every < servers:
                return False
            concerns_us = servers <= self._few or index == 0 or same * 2 <= every
            if same == every or not concerns_us:
                return True
            found = await self._store.values(prefixes[0], f"{records.ALIVE}/")
            told = facts.told_by(found, _alive(found))
            if len(told) < servers:
                return False  # some are of servers that have left
            if differences := facts.differences(told):
                self._report(PeersDiffer(differences))
            return True
        return False


def _alive(values: dict[str, bytes]) -> dict[int, str]:
    found = {}
    for key, value in values.items():
        match records.key_parts(key):
            case records.ALIVE, (index,):
                with suppress(DamagedRecord):
                    found[index] = decode(key, value, Beat).incarnation
            case _:
                pass
    return found
