"""The keys of a job in etcd: read at one revision, changed by one transaction."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from hashlib import sha256

from ascend_supervisor.coordination.agreement import acts, keys
from ascend_supervisor.coordination.agreement.view import MOST_SERVERS, View, view_of
from ascend_supervisor.coordination.peers.near import Near
from ascend_supervisor.coordination.peers.reading import Reading, ranges, values_of
from ascend_supervisor.etcd.client import Etcd
from ascend_supervisor.etcd.failures import LeaseNotFound
from ascend_supervisor.etcd.values import (
    Absent,
    Compare,
    Delete,
    Equals,
    Get,
    Key,
    Operation,
    Prefix,
    Put,
    Range,
    Transaction,
)
from ascend_supervisor.etcd.watch import Watch

JOB_LEASE_SECONDS = 3600
MOST_LEASE = 2**63 - 1


class Store:
    """``incarnation`` names the lease of ``alive``, which lives for ``ttl`` seconds.

    All of it raises the errors of ``etcd.failures``.
    """

    def __init__(self, etcd: Etcd, name: str, incarnation: str, ttl: int) -> None:
        self._etcd = etcd
        self._prefix = keys.prefix(name)
        self._alive = lease_of(incarnation)
        self._ttl = ttl
        self._job = ""
        self._reading = Reading(etcd, self._prefix)

    async def read(self, near: Near | None = None, servers: int = MOST_SERVERS) -> View:
        """All that is known of the job, which has so many servers.

        For ``near``, of a job of many servers, only its own keys and the epoch are up to date.
        """
        if near is not None:
            return await self._reading.view(near)
        answer = await self._etcd.read(*map(Get, ranges(self._prefix)))
        return view_of(values_of(answer.got, self._prefix), answer.revision, servers)

    async def write(self, act: acts.Transaction) -> bool:
        """Whether it has succeeded; nothing was changed if not. Leases that are gone are made."""
        self._job = act.job
        has_succeeded = False
        try:
            has_succeeded = await self._written(act)
        finally:
            if not has_succeeded:
                self._reading.forget()
        return has_succeeded

    async def _written(self, act: acts.Transaction) -> bool:
        transaction = self._transaction(act)
        try:
            return (await self._etcd.transact(transaction)).succeeded
        except LeaseNotFound:
            await self._grant(act)
            return (await self._etcd.transact(transaction)).succeeded

    async def keep_alive(self) -> bool:
        """Whether the lease of our ``alive`` lives on."""
        return await self._etcd.keep_alive(self._alive) is not None

    async def keep_job(self) -> None:
        """Let the records of the job live for another hour."""
        if self._job:
            await self._etcd.keep_alive(lease_of(self._job))

    @asynccontextmanager
    async def watch(self, revision: int, near: Near | None = None) -> AsyncIterator[Watch]:
        """Wakes at every change after ``revision`` of the job's keys; of those near ``near``."""
        ranges: tuple[Range, ...] = (Prefix(self._prefix),)
        if near is not None:
            ranges = tuple(Key(self._prefix + name) for name in near.watched)
        async with self._etcd.watch(*ranges, revision=revision + 1) as watch:
            yield watch

    async def _grant(self, act: acts.Transaction) -> None:
        await self._etcd.grant(lease_of(act.job), JOB_LEASE_SECONDS)
        if any(put.lease is acts.Lease.ALIVE for put in act.puts):
            await self._etcd.grant(self._alive, self._ttl)

    def _transaction(self, act: acts.Transaction) -> Transaction:
        when = tuple(self._compare(one) for one in act.compares)
        return Transaction(when, tuple(self._operations(act)))

    def _compare(self, one: acts.Compare) -> Compare:
        name = self._prefix + one.key
        return Absent(name) if one.value is None else Equals(name, one.value)

    def _operations(self, act: acts.Transaction) -> Iterator[Operation]:
        leases = {acts.Lease.JOB: lease_of(act.job), acts.Lease.ALIVE: self._alive}
        for put in act.puts:
            yield Put(self._prefix + put.key, put.value, leases[put.lease])
        for key in act.deletes:
            yield Delete(Key(self._prefix + key))


def lease_of(word: str) -> int:
    """The id of the lease that belongs to a random word, from 1 on."""
    return int.from_bytes(sha256(word.encode()).digest()[:8], "big") % MOST_LEASE + 1
