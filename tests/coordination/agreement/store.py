"""A model of etcd: keys with values and leases; a transaction happens at once."""

from __future__ import annotations

from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.coordination.agreement import records
from ascend_supervisor.coordination.agreement.acts import RecordChange
from ascend_supervisor.coordination.agreement.records import (
    About,
    Charges,
    Epoch,
    decode,
    encode,
    lease_of,
)
from ascend_supervisor.coordination.agreement.view import View, view_of
from ascend_supervisor.coordination.peers.near import Look, near_view, needs_all, suspects
from ascend_supervisor.etcd.values import Absent, Delete, Equals, Operation, Put, Transaction


class Item(Struct, frozen=True, order=True):
    """``holder`` is the process with whose lease the key goes; empty: it stays with the job."""

    key: str
    value: bytes
    holder: str = ""


class Store(Struct, frozen=True, cache_hash=True):
    """``writes`` counts the epochs that were ever written, also before a loss of data."""

    items: tuple[Item, ...] = ()
    writes: int = 0

    @property
    def word(self) -> str:
        """A word that no write before has used."""
        return f"w{self.writes}"

    def values(self) -> dict[str, bytes]:
        return {item.key: item.value for item in self.items}

    def without(self, holder: str) -> Store:
        """After the lease of a process has expired."""
        return replace(self, items=tuple(item for item in self.items if item.holder != holder))

    def without_leases(self) -> Store:
        """After etcd has stood still: the short leases are gone."""
        return replace(self, items=tuple(item for item in self.items if not item.holder))

    def wiped(self) -> Store:
        return replace(self, items=())

    def overwritten(self, key: str) -> Store:
        items = (Item(key, b"junk") if item.key == key else item for item in self.items)
        return replace(self, items=tuple(items))

    def holds(self, holder: str) -> bool:
        return any(item.holder == holder for item in self.items)


def compared(change: Transaction) -> dict[str, bytes | None]:
    """What each key must hold; None: it must not exist. No act compares revisions."""
    values = [one for one in change.when if isinstance(one, (Equals, Absent))]
    assert len(values) == len(change.when)
    return {one.key: one.value if isinstance(one, Equals) else None for one in values}


def put_by(change: Transaction) -> dict[str, bytes]:
    return {one.key: one.value for one in change.then if isinstance(one, Put)}


def deleted_by(change: Transaction) -> tuple[str, ...]:
    return tuple(one.key for one in change.then if isinstance(one, Delete))


def transacted(store: Store, change: Transaction, holder: str) -> Store | None:
    """The store after the transaction; None if a compare has failed.

    Every key that is put has the lease of the job, or that of the process.
    """
    values = store.values()
    if any(values.get(key) != value for key, value in compared(change).items()):
        return None
    items = {item.key: item for item in store.items}
    for key in deleted_by(change):
        items.pop(key, None)
    if puts := [one for one in change.then if isinstance(one, Put)]:
        values |= put_by(change)
        epoch = values.get(records.EPOCH_KEY)
        job = "" if epoch is None else decode(records.EPOCH_KEY, epoch, Epoch).job
        holders = {lease_of(job): "", lease_of(holder): holder}
        items |= {put.key: Item(put.key, put.value, holders[put.lease]) for put in puts}
    writes = store.writes + any(put.key == records.EPOCH_KEY for put in puts)
    return Store(tuple(items[key] for key in sorted(items)), writes)


@lru_cache(maxsize=200_000)
def seen(store: Store) -> View:
    return view_of(store.values(), 0)


@lru_cache(maxsize=200_000)
def near_seen(store: Store, look: Look) -> View:
    """What a server of many reads, as ``ViewReading`` does."""
    near, values = look.near, store.values()
    whole, closely, before = seen(store), frozenset[int](), None
    generation = whole.epoch.generation if whole.epoch is not None else None
    while closely != before:
        names = {*near.read(generation, closely), records.ABOUT_KEY}
        read = {
            key: value
            for key, value in values.items()
            if key in names or key.startswith(f"{records.ROSTER}/")
        }
        view = near_view(near, read, 0, closely)
        before, closely = closely, closely | suspects(near, view, look)
    return whole if needs_all(view, 0, look) else view


def ageless(act: RecordChange) -> RecordChange:
    """The same without the ages of restarts: with a budget that has no period they mean nothing,
    and without them many states of the search are one."""
    about = None if act.about is None else _plain(act.about)
    return replace(act, then=tuple(map(_ageless, act.then)), about=about)


def _ageless(put: Operation) -> Operation:
    if not isinstance(put, Put) or put.key != records.ABOUT_KEY:
        return put
    return replace(put, value=encode(_plain(decode(put.key, put.value, About))))


def _plain(about: About) -> About:
    charges = about.charges
    return replace(about, charges=Charges((0.0,) * len(charges.spent), 0, None, charges.free))
