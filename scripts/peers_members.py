"""Members of a job without ranks, many in one process: URL TTL FIRST COUNT ALL [FEW].

They use the real client, store, session and agreement. On stdin each line is a member that fails;
on stdout a line of JSON tells what a member has heard, with the time (CLOCK_BOOTTIME).
"""

from __future__ import annotations

import json
import secrets
import sys
import time
from functools import partial
from urllib.parse import urlsplit
from uuid import uuid4

import anyio

from ascend_supervisor.coordination.agreement.acts import EndRanks, Exit, StartRanks
from ascend_supervisor.coordination.agreement.situation import JobRules, Ranks, Self
from ascend_supervisor.coordination.peers.session import Session
from ascend_supervisor.coordination.peers.store import Store
from ascend_supervisor.etcd.access import Access, Endpoint
from ascend_supervisor.etcd.client import etcd_client
from ascend_supervisor.outcome import Ended, Fault, Remedy
from ascend_supervisor.restart_policy import Backoff, RestartBudget

START_SECONDS = 0.02
"""Between two members: on machines of their own they would not wait for each other's imports."""
TIMEOUT = 1800.0
SEATS = 64
BUDGET = RestartBudget(limit=10_000, backoff=Backoff(0.0, 0.0))


def tell(what: str, member: int, generation: int) -> None:
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    sys.stdout.write(json.dumps([what, member, generation, now]) + "\n")
    sys.stdout.flush()


class Members:
    def __init__(self, url: str, ttl: float, servers: int, *few: int) -> None:
        host, port = urlsplit(url).hostname, urlsplit(url).port
        assert host is not None
        assert port is not None
        self._endpoint = Endpoint(host, port, is_tls=False)
        self._ttl = ttl
        self._servers = servers
        self._few = few
        self.sessions: dict[int, Session] = {}

    async def live(self, index: int) -> None:
        """One member, until the job ends."""
        incarnation = secrets.token_hex(8)
        own = Self(incarnation, f"{secrets.token_hex(8)}@{uuid4()}", index)  # as real ones
        rules = JobRules(
            own,
            self._servers,
            BUDGET,
            "same",
            ttl=self._ttl,
            fence=4 * self._ttl,
            timeout=TIMEOUT,
            group=min(SEATS, *self._few, SEATS),
        )
        async with etcd_client(Access((self._endpoint,), deadline=self._ttl / 4)) as etcd:
            store = Store(etcd, "scale", incarnation, round(self._ttl))
            tell_trouble = partial(complain, index)
            quiet = lambda _: None  # noqa: E731
            session = Session(store, rules, quiet, tell_trouble, quiet, *self._few)
            self.sessions[index] = session
            session.tell(table="0123456789abcdef")
            async with anyio.create_task_group() as tasks:
                for task in (session.run, session.stay_alive, session.watch):
                    tasks.start_soon(task)
                await self._follow(index, session)
                tasks.cancel_scope.cancel()

    async def _follow(self, index: int, session: Session) -> None:
        """Ranks start and end at once."""
        while not isinstance(session.order, Exit):
            if (start := session.start) is not None:
                session.begin(start.generation)
                tell("started", index, start.generation)
            elif isinstance(session.order, EndRanks) and session.situation.ranks is Ranks.ENDING:
                tell("told", index, session.situation.generation or 0)
                session.tell(ranks=Ranks.NONE)
            await session.change()
        tell(f"exit: {session.order.reason}", index, -1)

    def fail(self, index: int) -> None:
        session = self.sessions[index]
        assert isinstance(session.order, StartRanks)
        verdict = Ended(Fault("a failure of this test", 1, Remedy.CHARGED), 600.0)
        tell("fails", index, session.order.generation)
        session.tell(ranks=Ranks.FAILED, verdict=verdict)


def complain(index: int, why: str | None) -> None:
    if why is not None:
        tell(f"trouble: {why}", index, -1)


async def obey(members: Members) -> None:
    async with await anyio.open_file(sys.stdin.fileno(), closefd=False) as lines:
        async for line in lines:
            members.fail(int(line))


async def main() -> None:
    url, ttl = sys.argv[1], float(sys.argv[2])
    first, count, servers, *few = map(int, sys.argv[3:])
    members = Members(url, ttl, servers, *few)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(obey, members)
        for index in range(first, first + count):
            tasks.start_soon(members.live, index)
            await anyio.sleep(START_SECONDS)


if __name__ == "__main__":
    anyio.run(main)
