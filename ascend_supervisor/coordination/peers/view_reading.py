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
    Get,
    Got,
    Key,
    KeyValue,
    Prefix,
    Range,
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
    """What is read near by: ``gets`` in the phase of ``epoch``, as far as it was known."""

    gets: tuple[Get, ...]
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

    values: Mapping[str, bytes] = {}
    revision: int = -1
    own: int = 0

    def get(self, name: str, own_key: str) -> Get:
        """Of a key that is known only what has changed; our own shows that etcd has its data."""
        is_known = self.own and name in self.values and name != own_key
        return Get(Key(name), since=self.revision + 1 if is_known else 0)

    def after(
        self, gets: Sequence[Get], answer: TransactionAnswer, own_key: str
    ) -> _KnownKeys | None:
        """With the answer to these; None if that does not fit to what is known."""
        found = dict(zip((one.range.name for one in gets), answer.got[-len(gets) :], strict=True))
        unchanged = [name for name, got in found.items() if got.count and not got.records]
        own = found[own_key].one
        modified = 0 if own is None else own.modified
        if unchanged and (answer.revision < self.revision or modified != self.own):
            return None
        if not self.values.keys() >= set(unchanged):
            return None
        values = {name: self.values[name] for name in unchanged}
        return _KnownKeys(values | values_of(list(found.values())), answer.revision, modified)


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
        self._closely: frozenset[int] = frozenset()

    def forget(self) -> None:
        """What is known was of no use: read it anew."""
        self._job, self._keys, self._whole = _KnownJob(), _KnownKeys(), None

    async def view(self, look: Look) -> View:
        """The newest view that ``look`` needs; raises the errors of etcd."""
        if look.wants_all:
            return await self._all(look.near)
        asked = self.asked(look.near)
        return await self.seen(look, asked, await self._etcd.read(*asked.gets))

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
        return Asked(gets, epoch, self._closely)

    async def seen(self, look: Look, asked: Asked, answer: TransactionAnswer) -> View:
        """The view, from the answer to what was ``asked``; more is read if that is needed."""
        near = look.near
        for _ in range(MOST_LOOKS):
            keys = self._keys.after(asked.gets[3:], answer, records.alive_key(near.index))
            try:
                epoch = None if keys is None else _epoch_in(keys.values)
            except DamagedRecord:
                break
            if keys is not None and self._job.learn(epoch, answer):
                self._keys = keys
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
        if whole is not None and whole.own:
            changed = (Get(one, since=whole.revision + 1) for one in RANGES)
            answer = await self._etcd.read(Get(Key(own_key)), *changed)
            values = {**whole.values, **values_of(answer.got[1:])}
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


def _is_the_same(whole: _Whole, own: KeyValue | None, revision: int) -> bool:
    """Whether etcd goes on from what was read: it has not lost its data meanwhile."""
    return revision >= whole.revision and (0 if own is None else own.modified) == whole.own
