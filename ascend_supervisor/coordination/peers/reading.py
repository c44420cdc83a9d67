"""Reads the keys of a job of many servers: those near by, and all of them when that is needed."""

from __future__ import annotations

import anyio
from msgspec import Struct

from ascend_supervisor.coordination.agreement import keys
from ascend_supervisor.coordination.agreement.records import Phase
from ascend_supervisor.coordination.agreement.view import View, view_of
from ascend_supervisor.coordination.peers.near import Near, counted, patched, shows_loss
from ascend_supervisor.etcd.client import Etcd
from ascend_supervisor.etcd.values import Answer, Get, Key, KeyValue, Part, Prefix


class _Whole(Struct, frozen=True):
    """All keys as they were at ``revision``, read at ``at`` (seconds of the event loop).

    ``own`` is when our own record was put last (a revision): nobody else puts it, and we only if
    we have read that it is gone, so etcd has its data as long as that stays; 0 without a record.
    """

    view: View
    revision: int
    at: float
    own: int


class Reading:
    """``prefix`` is that of the job's keys."""

    def __init__(self, etcd: Etcd, prefix: str) -> None:
        self._etcd = etcd
        self._prefix = prefix
        self._whole: _Whole | None = None
        self._latest: View | None = None

    def forget(self) -> None:
        """What is known was of no use: read all the next time."""
        self._latest = None

    async def view(self, near: Near) -> View:
        """The newest view that ``near`` needs; raises DamagedRecord, and the errors of etcd."""
        latest, whole = self._latest, self._whole
        if latest is None or latest.epoch is None or whole is None:
            return await self._all(near)
        if latest.epoch.phase is Phase.END or anyio.current_time() - whole.at > near.limit:
            return await self._all(near)
        names = near.read(latest.epoch.generation)
        gets = [Get(Key(self._prefix + name)) for name in names]
        count = Get(Prefix(self._prefix + counted(latest.epoch)), Part.COUNT)
        answer = await self._etcd.read(*gets, count)
        found = {name: got.one for name, got in zip(names, answer.got, strict=False)}
        if not _is_the_same(whole, found[keys.server(near.index)], answer.revision):
            self._whole = None
            return await self._all(near)
        epoch = found[keys.EPOCH]
        if epoch is None or answer.got[-1].count >= near.servers:
            return await self._all(near)
        values = {name: None if one is None else one.value for name, one in found.items()}
        if values[keys.EPOCH] != latest.values.get(keys.EPOCH):
            return await self._next_epoch(near, latest)
        self._latest = patched(latest, values, answer.revision)
        return self._latest

    async def _next_epoch(self, near: Near, latest: View) -> View:
        """The epoch has changed, and ``about`` with it."""
        names = (keys.EPOCH, keys.ABOUT, *near.watched[1:])
        answer = await self._etcd.read(*(Get(Key(self._prefix + name)) for name in names))
        found = zip(names, answer.got, strict=True)
        values = {name: None if got.one is None else got.one.value for name, got in found}
        own = answer.got[names.index(keys.server(near.index))].one
        is_the_same = self._whole is not None and _is_the_same(self._whole, own, answer.revision)
        view = patched(latest, values, answer.revision)
        is_going_on = view.epoch is not None and view.epoch.phase is not Phase.END
        if not is_the_same or not is_going_on or shows_loss(view):
            return await self._all(near)
        self._latest = view
        return view

    async def _all(self, near: Near) -> View:
        """All keys at one revision; of those that have not changed since, nothing is sent."""
        whole = self._whole
        if whole is not None and whole.own:
            own = Get(Key(self._prefix + keys.server(near.index)))
            changed = Get(Prefix(self._prefix), since=whole.revision + 1)
            answer = await self._etcd.read(own, changed)
            values = {**whole.view.values, **self._values(answer, 1)}
            is_complete = len(values) == answer.got[1].count  # else something was deleted
            if is_complete and _is_the_same(whole, answer.got[0].one, answer.revision):
                return self._know(values, answer, whole.own)
        answer = await self._etcd.read(Get(Prefix(self._prefix)))
        name = self._prefix + keys.server(near.index)
        modified = [one.modified for one in answer.got[0].records if one.key == name]
        return self._know(self._values(answer, 0), answer, sum(modified))

    def _know(self, values: dict[str, bytes], answer: Answer, own: int) -> View:
        view = view_of(values, answer.revision)
        self._latest = view
        self._whole = _Whole(view, answer.revision, anyio.current_time(), own)
        return view

    def _values(self, answer: Answer, at: int) -> dict[str, bytes]:
        return {one.key.removeprefix(self._prefix): one.value for one in answer.got[at].records}


def _is_the_same(whole: _Whole, own: KeyValue | None, revision: int) -> bool:
    """Whether etcd goes on from what was read: it has not lost its data meanwhile."""
    return revision >= whole.revision and (0 if own is None else own.modified) == whole.own
