"""The keys of a job in etcd: read at one revision, changed by one transaction.

Of a job of many servers those near by are read, and all of them when that is needed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.coordination.agreement import records
from ascend_supervisor.coordination.agreement.records import About
from ascend_supervisor.coordination.agreement.view import MOST_SERVERS, View, view_of
from ascend_supervisor.coordination.peers.near import Look, Near
from ascend_supervisor.coordination.peers.view_reading import RANGES, ViewReading, values_of
from ascend_supervisor.etcd.client import Etcd
from ascend_supervisor.etcd.failures import EtcdError, LeaseNotFound
from ascend_supervisor.etcd.values import (
    Get,
    Key,
    KeyValue,
    Prefix,
    Put,
    Transaction,
    TransactionAnswer,
)
from ascend_supervisor.etcd.watch import Watch

JOB_LEASE_SECONDS = 3600


class WriteAnswer(Struct, frozen=True):
    """``view``: as it was then; None: it is to be read."""

    has_succeeded: bool
    view: View | None = None


class Store:
    """``incarnation`` names the lease of ``alive``, which lives for ``ttl`` seconds.

    All of it raises the errors of ``etcd.failures``.
    """

    def __init__(self, etcd: Etcd, name: str, incarnation: str, ttl: int) -> None:
        self._etcd = etcd.below(records.job_prefix(name))
        self._alive = records.lease_of(incarnation)
        self._ttl = ttl
        self._job: int | None = None
        self._is_granted = False
        self._reading = ViewReading(self._etcd)

    async def reached(self) -> None:
        """Return when etcd has answered."""
        await self._etcd.read(Get(Key(records.EPOCH_KEY)))

    async def read(self, look: Look | None = None, servers: int = MOST_SERVERS) -> View:
        """All that is known of the job, which has so many servers; of many what ``look`` needs."""
        if look is not None:
            return await self._reading.view(look)
        answer = await self._etcd.read(*map(Get, RANGES))
        return view_of(values_of(answer.got), answer.revision, servers)

    async def write(self, change: Transaction, look: Look | None = None) -> WriteAnswer:
        """Nothing was changed if it has not succeeded. Leases that are gone are made.

        The view after it comes with the same answer, if ``look`` is that of a server of many.
        """
        leases = {one.lease for one in change.then if isinstance(one, Put)}
        self._job = next(iter(leases - {self._alive}), self._job)
        asked = None if look is None else self._reading.asked(look.near)
        if asked is not None:
            change = replace(change, then=(*change.then, *asked.gets))
        if self._alive in leases and not self._is_granted:  # else the first write is in vain
            await self._etcd.grant(self._alive, self._ttl)
            self._is_granted = True
        answer = await self._written(change, leases)
        if not answer.succeeded:
            return WriteAnswer(has_succeeded=False)
        view = None
        if look is not None and asked is not None:
            with suppress(EtcdError):  # what was written is written
                view = await self._reading.seen(look, asked, answer)
        return WriteAnswer(has_succeeded=True, view=view)

    async def _written(self, change: Transaction, leases: set[int]) -> TransactionAnswer:
        try:
            return await self._etcd.transact(change)
        except LeaseNotFound:
            for lease in leases:
                seconds = self._ttl if lease == self._alive else JOB_LEASE_SECONDS
                await self._etcd.grant(lease, seconds)
            return await self._etcd.transact(change)

    async def keep_alive(self) -> bool:
        """Whether the lease of our ``alive`` lives on."""
        return await self._etcd.keep_alive(self._alive) is not None

    async def keep_job(self) -> None:
        """Let the records of the job live for another hour."""
        if self._job is not None:
            await self._etcd.keep_alive(self._job)

    async def count(self, *prefixes: str) -> tuple[int, ...]:
        """How many keys begin with each."""
        answer = await self._etcd.read(*(Get(Prefix(one), only_count=True) for one in prefixes))
        return tuple(got.count for got in answer.got)

    async def values(self, *prefixes: str) -> dict[str, bytes]:
        """Those of the keys that begin with one of these."""
        answer = await self._etcd.read(*(Get(Prefix(one)) for one in prefixes))
        return values_of(answer.got)

    async def steps(self) -> bytes:
        """What a server has told of the steps of the job; empty if none has."""
        if self._job is None:
            return b""
        answer = await self._etcd.read(Get(Key(records.steps_key(self._job))))
        return next(iter(values_of(answer.got).values()), b"")

    async def write_steps(self, told: bytes) -> None:
        """Not before the job has begun: they live as long as its other records."""
        if self._job is not None:
            put = Put(records.steps_key(self._job), told, self._job)
            await self._etcd.transact(Transaction(then=(put,)))

    def told(self, put: Sequence[KeyValue]) -> About | None:
        """Where the job stands now that this was put; None if that is to be read."""
        return self._reading.told(put)

    @asynccontextmanager
    async def watch(self, revision: int, near: Near | None = None) -> AsyncIterator[Watch]:
        """Wakes at every change after ``revision`` of the job's keys; of those near ``near``."""
        ranges = (Prefix(""),) if near is None else tuple(map(Key, near.watched))
        async with self._etcd.watch(*ranges, revision=revision + 1) as watch:
            yield watch
