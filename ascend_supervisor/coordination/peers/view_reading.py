"""Reads the job for a server of many: what is near it, and all records where that is needed.

Both are read at one revision. What has not changed since it was read last is not sent again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.coordination.agreement import records, rosters
from ascend_supervisor.coordination.agreement.records import (
    About,
    DamagedRecord,
    Epoch,
    Phase,
    decode,
)
from ascend_supervisor.coordination.agreement.view import View, view_of
from ascend_supervisor.coordination.peers.near import (
    Look,
    Near,
    counted,
    near_view,
    needs_all,
    suspects,
)
from ascend_supervisor.etcd.client import Etcd
from ascend_supervisor.etcd.values import (
    Absent,
    Compare,
    Get,
    Got,
    Key,
    KeyValue,
    ModifiedAt,
    NotSince,
    Prefix,
    Range,
    Transaction,
    TransactionAnswer,
)

RANGES: tuple[Range, ...] = (
    *(Key(name) for name in (records.EPOCH_KEY, records.ABOUT_KEY)),
    *(
        Prefix(f"{word}/")
        for word in (
            records.ROSTER,
            records.NEWCOMER,
            records.SERVER,
            records.READY,
            records.DONE,
            records.ALIVE,
        )
    ),
    Prefix(records.SPARE),
)
"""Where a job has keys: what others keep beside them below its prefix is not read."""

MOST_LOOKS = 4
"""So many requests for what is near; then all is read."""


class Asked(Struct, frozen=True):
    """What is read near by: ``gets`` in the phase of ``epoch``, as far as it was known.

    The last of them are of the keys ``names``.
    """

    gets: tuple[Get, ...]
    names: tuple[str, ...]
    epoch: Epoch | None
    closely: frozenset[int]

    def fits(self, epoch: Epoch | None) -> bool:
        """Whether the marks of its generation were asked for, or there cannot be any of ours."""
        if epoch is None or (self.epoch and self.epoch.generation == epoch.generation):
            return True
        is_later = self.epoch is not None and self.epoch.generation < epoch.generation
        return is_later and epoch.phase is Phase.GATHER

    def count(self, epoch: Epoch | None, answer: TransactionAnswer) -> int:
        """How many are ready, done or have come, as ``counted``; 0 if that is not known."""
        is_its = self.gets[2].range == Prefix(counted(epoch))
        return answer.got[2].count if is_its else 0


class _KnownJob(Struct):
    """``values`` are those of ``about`` and the blocks of its roster, as they were at ``read``."""

    values: dict[str, bytes] = {}
    read: int = -1
    epoch: Epoch | None = None

    def learn(self, epoch: Epoch | None, answer: TransactionAnswer) -> bool:
        """Take in what has changed; False if that does not fit to what is known."""
        about, blocks = answer.got[:2]
        changed = values_of((about, blocks))
        values = {**self.values, **changed}
        if not about.count:
            values.pop(records.ABOUT_KEY, None)
        is_first = self.read < 0
        is_complete = len(values) == about.count + blocks.count
        if not is_first and (answer.revision < self.read or not is_complete):
            return False
        if not is_first and epoch is not None and not _belong_together(epoch, values):
            return False
        self.values, self.read, self.epoch = values, answer.revision, epoch
        return True


class _KnownKeys(Struct, frozen=True):
    """What was near by at ``revision``; ``own`` as that of ``_Whole``, of our ``alive``."""

    records: Mapping[str, KeyValue] = {}
    revision: int = -1
    own: int = 0

    @property
    def values(self) -> dict[str, bytes]:
        return {name: one.value for name, one in self.records.items()}

    def get(self, name: str, own_key: str) -> Get:
        """Of a key that is known only what has changed; our own shows that etcd has its data."""
        is_known = self.own and name in self.records and name != own_key
        return Get(Key(name), since=self.revision + 1 if is_known else 0)

    def as_it_was(self, name: str) -> Compare:
        """Holds if the key, which was read, is what it was."""
        one = self.records.get(name)
        return Absent(name) if one is None else ModifiedAt(name, one.modified)

    def after(self, asked: Asked, answer: TransactionAnswer, own_key: str) -> _KnownKeys | None:
        """With the answer to what was ``asked``; None if that does not fit to what is known."""
        found = dict(zip(asked.names, answer.got[-len(asked.names) :], strict=True))
        unchanged = [name for name, got in found.items() if got.count and not got.records]
        own = found[own_key].one
        modified = 0 if own is None else own.modified
        if unchanged and (answer.revision < self.revision or modified != self.own):
            return None
        if not self.records.keys() >= set(unchanged):
            return None
        kept = {name: self.records[name] for name in unchanged}
        changed = {name: got.one for name, got in found.items() if got.one is not None}
        return _KnownKeys(kept | changed, answer.revision, modified)


class _LastAnswer(Struct, frozen=True):
    """What was asked last of what is near, and the answer."""

    asked: Asked
    answer: TransactionAnswer

    def compares(self, keys: _KnownKeys) -> tuple[Compare, ...]:
        """All hold if the answer would be the same; ``keys`` are those known by it.

        A part of ``about`` that alone was deleted is noticed by those that read all.
        """
        large = (NotSince(one.range, self.answer.revision + 1) for one in self.asked.gets[:3])
        return (*large, *map(keys.as_it_was, self.asked.names))

    def again(self, revision: int, own_key: str) -> TransactionAnswer:
        """The same answer at a later revision, of what has changed meanwhile: nothing."""
        own = len(self.answer.got) - len(self.asked.names) + self.asked.names.index(own_key)
        counted = [Got((), got.count) for got in self.answer.got]
        counted[own] = self.answer.got[own]
        return replace(self.answer, revision=revision, got=tuple(counted))


class _Whole(Struct, frozen=True):
    """All keys as they were at ``revision``.

    ``own`` is when our own record was put last (a revision): nobody else puts it, and we only if
    we have read that it is gone, so etcd has its data as long as that stays; 0 without a record.
    """

    values: Mapping[str, bytes]
    revision: int
    own: int


class ViewReading:
    """``etcd`` names keys as the job does, without its prefix."""

    def __init__(self, etcd: Etcd) -> None:
        self._etcd = etcd
        self._whole: _Whole | None = None
        self._job = _KnownJob()
        self._keys = _KnownKeys()
        self._last: _LastAnswer | None = None
        self._closely: frozenset[int] = frozenset()

    def forget(self) -> None:
        """What is known was of no use: read it anew."""
        self._job, self._keys, self._whole, self._last = _KnownJob(), _KnownKeys(), None, None

    async def view(self, look: Look) -> View:
        """The newest view that ``look`` needs; raises the errors of etcd."""
        if look.wants_all:
            return await self._all(look.near)
        asked = self.asked(look.near)
        own_key = records.alive_key(look.near.index)
        return await self.seen(look, asked, await self._answer(asked, own_key))

    async def _answer(self, asked: Asked, own_key: str) -> TransactionAnswer:
        """Where nothing has changed since the last one, etcd says no more than that."""
        last = self._last
        if last is None or (last.asked.names, last.asked.epoch) != (asked.names, asked.epoch):
            return await self._etcd.read(*asked.gets)
        same = Transaction(when=last.compares(self._keys), otherwise=asked.gets)
        answer = await self._etcd.transact(same)
        return last.again(answer.revision, own_key) if answer.succeeded else answer

    def asked(self, near: Near) -> Asked:
        """What to read near by."""
        job, epoch = self._job, self._job.epoch
        names = near.read(None if epoch is None else epoch.generation, self._closely)
        gets = (
            Get(Key(records.ABOUT_KEY), since=job.read + 1),
            Get(Prefix(f"{records.ROSTER}/"), since=job.read + 1),
            Get(Prefix(counted(epoch)), only_count=True),
            *(self._keys.get(name, records.alive_key(near.index)) for name in names),
        )
        return Asked(gets, names, epoch, self._closely)

    async def seen(self, look: Look, asked: Asked, answer: TransactionAnswer) -> View:
        """The view, from the answer to what was ``asked``; more is read if that is needed."""
        near = look.near
        for _ in range(MOST_LOOKS):
            keys = self._keys.after(asked, answer, records.alive_key(near.index))
            try:
                epoch = None if keys is None else _epoch_in(keys.values)
            except DamagedRecord:
                break
            if keys is not None and self._job.learn(epoch, answer):
                self._keys, self._last = keys, _LastAnswer(asked, answer)
                values = {**keys.values, **self._job.values}
                view = near_view(near, values, answer.revision, asked.closely)
                self._closely = suspects(near, view, look)
                if asked.fits(epoch) and self._closely <= asked.closely:
                    count = asked.count(epoch, answer)
                    if needs_all(view, count, look):
                        return await self._all(near)
                    return view if epoch is not None else replace(view, newcomers=count)
            else:
                self.forget()  # etcd has lost data, or a stranger has written to it
            asked = self.asked(near)
            answer = await self._etcd.read(*asked.gets)
        return await self._all(near)

    def told(self, put: Sequence[KeyValue]) -> About | None:
        """The job as it became by this; None if there is more to it, or parts are not known."""
        values = {one.key: one.value for one in put}
        about = values.pop(records.ABOUT_KEY, None)
        if about is None or values:
            return None
        with suppress(DamagedRecord):
            return rosters.whole(decode(records.ABOUT_KEY, about, About), self._job.values)
        return None

    async def _all(self, near: Near) -> View:
        """All keys at one revision; of those that have not changed since, nothing is sent."""
        whole, own_key = self._whole, records.server_key(near.index)
        answer = await self._since(whole, own_key)
        if whole is not None and answer.succeeded and whole.own:
            values = {**whole.values, **values_of(answer.got)}
            # Else something was deleted, or etcd has lost data.
            is_complete = len(values) == sum(got.count for got in answer.got)
            if is_complete and answer.revision >= whole.revision:
                return self._know(values, answer, whole.own, near.servers)
            answer = await self._etcd.read(*map(Get, RANGES))
        found = (one for got in answer.got for one in got.records)
        modified = sum(one.modified for one in found if one.key == own_key)
        return self._know(values_of(answer.got), answer, modified, near.servers)

    async def _since(self, whole: _Whole | None, own_key: str) -> TransactionAnswer:
        """What has changed since then, if our own record has not (``succeeded``); else all."""
        everything = tuple(map(Get, RANGES))
        if whole is None or not whole.own:
            return await self._etcd.read(*everything)
        changed = tuple(Get(one, since=whole.revision + 1) for one in RANGES)
        same = ModifiedAt(own_key, whole.own)
        return await self._etcd.transact(Transaction((same,), changed, everything))

    def _know(
        self, values: dict[str, bytes], answer: TransactionAnswer, own: int, servers: int
    ) -> View:
        view = view_of(values, answer.revision, servers)
        self._whole = _Whole(values, answer.revision, own)
        return view


def values_of(answers: Sequence[Got]) -> dict[str, bytes]:
    """The values by key."""
    return {one.key: one.value for got in answers for one in got.records}


def _epoch_in(values: Mapping[str, bytes]) -> Epoch | None:
    """Raises DamagedRecord."""
    value = values.get(records.EPOCH_KEY)
    return None if value is None else decode(records.EPOCH_KEY, value, Epoch)


def _belong_together(epoch: Epoch, values: Mapping[str, bytes]) -> bool:
    try:
        about = decode(records.ABOUT_KEY, values.get(records.ABOUT_KEY, b""), About)
        rosters.whole(about, values)
    except DamagedRecord:
        return False
    return about.stamp == epoch.stamp
