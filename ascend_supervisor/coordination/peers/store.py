"""The keys of a job in etcd: read at one revision, changed by one transaction.

Of a job of many servers those near by are read, and all of them when that is needed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio
from msgspec import Struct

from ascend_supervisor.coordination.agreement import records
from ascend_supervisor.coordination.agreement.records import DamagedRecord, Phase
from ascend_supervisor.coordination.agreement.view import MOST_SERVERS, View, view_of
from ascend_supervisor.coordination.peers.near import Near, counted, patched, shows_loss
from ascend_supervisor.etcd.client import Etcd
from ascend_supervisor.etcd.failures import LeaseNotFound
from ascend_supervisor.etcd.values import (
    Get,
    Got,
    Key,
    KeyValue,
    Prefix,
    Put,
    Range,
    Transaction,
    TransactionAnswer,
)
from ascend_supervisor.etcd.watch import Watch

RANGES: tuple[Range, ...] = (
    *(Key(name) for name in (records.EPOCH_KEY, records.ABOUT_KEY)),
    *(Prefix(f"{word}/") for word in (records.SERVER, records.READY, records.DONE, records.ALIVE)),
)
"""Where a job has keys: what others keep beside them below its prefix is not read."""


class _Whole(Struct, frozen=True):
    """All keys as they were at ``revision``, read at ``at`` (seconds of the event loop).

    ``own`` is when our own record was put last (a revision): nobody else puts it, and we only if
    we have read that it is gone, so etcd has its data as long as that stays; 0 without a record.
    """

    view: View
    revision: int
    at: float
    own: int
    servers: int


class ViewReading:
    """``etcd`` names keys as the job does, without its prefix."""

    def __init__(self, etcd: Etcd) -> None:
        self._etcd = etcd
        self._whole: _Whole | None = None
        self._latest: View | None = None

    def forget(self) -> None:
        """What is known was of no use: read all the next time."""
        self._latest = None

    async def view(self, near: Near) -> View:
        """The newest view that ``near`` needs; raises the errors of etcd."""
        try:
            return await self._newest(near)
        except DamagedRecord:  # what is damaged counts for nothing where all is read
            return await self._all(near)

    async def _newest(self, near: Near) -> View:
        """Raises DamagedRecord for a record near by."""
        latest, whole = self._latest, self._whole
        if latest is None or latest.epoch is None or latest.damaged or whole is None:
            return await self._all(near)
        if whole.servers != near.servers:
            return await self._all(near)
        if latest.epoch.phase is Phase.END or anyio.current_time() - whole.at > near.limit:
            return await self._all(near)
        names = near.read(latest.epoch.generation)
        count = Get(Prefix(counted(latest.epoch)), only_count=True)
        answer = await self._etcd.read(*_gets(names), count)
        found = {name: got.one for name, got in zip(names, answer.got, strict=False)}
        if not _is_the_same(whole, found[records.server_key(near.index)], answer.revision):
            self._whole = None
            return await self._all(near)
        epoch = found[records.EPOCH_KEY]
        if epoch is None or answer.got[-1].count >= near.servers:
            return await self._all(near)
        values = {name: None if one is None else one.value for name, one in found.items()}
        if values[records.EPOCH_KEY] != latest.values.get(records.EPOCH_KEY):
            return await self._next_epoch(near, latest)
        self._latest = patched(latest, values, answer.revision)
        return self._latest

    async def _next_epoch(self, near: Near, latest: View) -> View:
        """The epoch has changed, and ``about`` with it."""
        names = (records.EPOCH_KEY, records.ABOUT_KEY, *near.watched[1:])
        answer = await self._etcd.read(*_gets(names))
        found = zip(names, answer.got, strict=True)
        values = {name: None if got.one is None else got.one.value for name, got in found}
        own = answer.got[names.index(records.server_key(near.index))].one
        is_the_same = self._whole is not None and _is_the_same(self._whole, own, answer.revision)
        view = patched(latest, values, answer.revision)
        if not is_the_same or not _goes_on(view) or shows_loss(view):
            return await self._all(near)
        self._latest = view
        return view

    async def _all(self, near: Near) -> View:
        """All keys at one revision; of those that have not changed since, nothing is sent."""
        whole, own_key = self._whole, records.server_key(near.index)
        if whole is not None and whole.own:
            changed = (Get(one, since=whole.revision + 1) for one in RANGES)
            answer = await self._etcd.read(Get(Key(own_key)), *changed)
            values = {**whole.view.values, **values_of(answer.got[1:])}
            # Else something was deleted.
            is_complete = len(values) == sum(got.count for got in answer.got[1:])
            if is_complete and _is_the_same(whole, answer.got[0].one, answer.revision):
                return self._know(values, answer, whole.own, near.servers)
        answer = await self._etcd.read(*map(Get, RANGES))
        found = (one for got in answer.got for one in got.records)
        modified = sum(one.modified for one in found if one.key == own_key)
        return self._know(values_of(answer.got), answer, modified, near.servers)

    def _know(
        self, values: dict[str, bytes], answer: TransactionAnswer, own: int, servers: int
    ) -> View:
        view = view_of(values, answer.revision, servers)
        self._latest = view
        self._whole = _Whole(view, answer.revision, anyio.current_time(), own, servers)
        return view


def values_of(answers: Sequence[Got]) -> dict[str, bytes]:
    """The values by key."""
    return {one.key: one.value for got in answers for one in got.records}


def _gets(names: Sequence[str]) -> tuple[Get, ...]:
    return tuple(Get(Key(name)) for name in names)


def _goes_on(view: View) -> bool:
    """Whether the epoch is that of a job that has not ended, and ``about`` belongs to it."""
    epoch, about = view.epoch, view.about
    if epoch is None or about is None or epoch.phase is Phase.END:
        return False
    return epoch.stamp == about.stamp


def _is_the_same(whole: _Whole, own: KeyValue | None, revision: int) -> bool:
    """Whether etcd goes on from what was read: it has not lost its data meanwhile."""
    return revision >= whole.revision and (0 if own is None else own.modified) == whole.own


JOB_LEASE_SECONDS = 3600


class Store:
    """``incarnation`` names the lease of ``alive``, which lives for ``ttl`` seconds.

    All of it raises the errors of ``etcd.failures``.
    """

    def __init__(self, etcd: Etcd, name: str, incarnation: str, ttl: int) -> None:
        self._etcd = etcd.below(records.job_prefix(name))
        self._alive = records.lease_of(incarnation)
        self._ttl = ttl
        self._job: int | None = None
        self._reading = ViewReading(self._etcd)

    async def read(self, near: Near | None = None, servers: int = MOST_SERVERS) -> View:
        """All that is known of the job, which has so many servers.

        For ``near``, of a job of many servers, only its own keys and the epoch are up to date.
        """
        if near is not None:
            return await self._reading.view(near)
        answer = await self._etcd.read(*map(Get, RANGES))
        return view_of(values_of(answer.got), answer.revision, servers)

    async def write(self, change: Transaction) -> bool:
        """Whether it has succeeded; nothing was changed if not. Leases that are gone are made."""
        leases = {one.lease for one in change.then if isinstance(one, Put)}
        self._job = next(iter(leases - {self._alive}), self._job)
        has_succeeded = False
        try:
            has_succeeded = await self._written(change, leases)
        finally:
            if not has_succeeded:
                self._reading.forget()
        return has_succeeded

    async def _written(self, change: Transaction, leases: set[int]) -> bool:
        try:
            return (await self._etcd.transact(change)).succeeded
        except LeaseNotFound:
            for lease in leases:
                seconds = self._ttl if lease == self._alive else JOB_LEASE_SECONDS
                await self._etcd.grant(lease, seconds)
            return (await self._etcd.transact(change)).succeeded

    async def keep_alive(self) -> bool:
        """Whether the lease of our ``alive`` lives on."""
        return await self._etcd.keep_alive(self._alive) is not None

    async def keep_job(self) -> None:
        """Let the records of the job live for another hour."""
        if self._job is not None:
            await self._etcd.keep_alive(self._job)

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

    @asynccontextmanager
    async def watch(self, revision: int, near: Near | None = None) -> AsyncIterator[Watch]:
        """Wakes at every change after ``revision`` of the job's keys; of those near ``near``."""
        ranges = (Prefix(""),) if near is None else tuple(map(Key, near.watched))
        async with self._etcd.watch(*ranges, revision=revision + 1) as watch:
            yield watch
