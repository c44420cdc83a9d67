"""What etcd is asked and what it answers: keys, transactions, records; pure.

Keys are text, values are bytes. Revisions count the transactions that have changed anything.
"""

from __future__ import annotations

from msgspec import Struct

MOST_OPERATIONS = 128
"""etcd's default --max-txn-ops: so many compares, and so many operations."""


class Key(Struct, frozen=True):
    """One key."""

    name: str


class Prefix(Struct, frozen=True):
    """All keys that begin with ``name``; every key if it is empty."""

    name: str


Range = Key | Prefix


class Equals(Struct, frozen=True):
    """The key exists, and has this value."""

    key: str
    value: bytes


class Absent(Struct, frozen=True):
    """The key does not exist."""

    key: str


class ModifiedAt(Struct, frozen=True):
    """The key exists, and was changed last at this revision."""

    key: str
    revision: int


class NotSince(Struct, frozen=True):
    """Nothing in the range was put at this revision or later."""

    range: Range
    revision: int


Compare = Equals | Absent | ModifiedAt | NotSince


class Get(Struct, frozen=True):
    """``since``: only records that were changed at this revision or later; the count is of all.

    ``only_count``: no records, only how many there are.
    """

    range: Range
    since: int = 0
    only_count: bool = False


class Put(Struct, frozen=True):
    """The key lives as long as the lease; 0 detaches it from any, and it stays."""

    key: str
    value: bytes
    lease: int = 0


class Delete(Struct, frozen=True):
    key: str


Operation = Get | Put | Delete


class Transaction(Struct, frozen=True):
    """``then`` if all compares hold, else ``otherwise``; all at one revision."""

    when: tuple[Compare, ...] = ()
    then: tuple[Operation, ...] = ()
    otherwise: tuple[Get, ...] = ()

    @property
    def size(self) -> int:
        """What counts for MOST_OPERATIONS."""
        return max(len(self.when), len(self.then), len(self.otherwise))

    @property
    def changes_nothing(self) -> bool:
        return all(isinstance(one, Get) for one in self.then)


class KeyValue(Struct, frozen=True):
    """A record; ``lease`` is 0 if it has none. ``modified`` is a revision."""

    key: str
    value: bytes
    lease: int
    modified: int


class Got(Struct, frozen=True):
    """The answer to a Get: the records in the order of their keys, and how many there are."""

    records: tuple[KeyValue, ...]
    count: int

    @property
    def one(self) -> KeyValue | None:
        """The record of a Get of a Key."""
        return self.records[0] if self.records else None


class TransactionAnswer(Struct, frozen=True):
    """Of a transaction: whether all compares held, the revision after it, and what was got.

    ``got`` has one item for each Get of what was done, in their order.
    """

    succeeded: bool
    revision: int
    got: tuple[Got, ...]
