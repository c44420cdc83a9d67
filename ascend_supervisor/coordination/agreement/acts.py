"""What a server does next: one transaction in etcd, or one act at home; values."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from ascend_supervisor.coordination.agreement.records import Cause, Seat


class Lease(Enum):
    """The lease of a key that is put; a put without one would detach the key."""

    JOB = "job"
    """An hour, kept alive by every server; its id follows from the job's id."""
    ALIVE = "alive"
    """That of this process, for one TTL."""


class KeyIs(Struct, frozen=True):
    """The key holds exactly ``value``; None: there is no such key."""

    key: str
    value: bytes | None


class KeyWritten(Struct, frozen=True):
    key: str
    value: bytes
    lease: Lease


class Read(Struct, frozen=True):
    """Read all keys of the job at one revision, then ask again."""


class WaitUntil(Struct, frozen=True):
    """Nothing to do before a watch wakes us or the clock shows ``until``; ``reason`` says why."""

    until: float
    reason: str


class EndRanks(Struct, frozen=True):
    """Drain, TERM, grace, KILL, sweep, release."""

    reason: str


class StartRanks(Struct, frozen=True):
    """Start ``generation``, with the servers of ``roster`` in order of their index."""

    generation: int
    roster: tuple[Seat, ...]


class Forget(Struct, frozen=True):
    """The index and the job that are remembered are not ours any more; no rank ever ran here."""


class Exit(Struct, frozen=True):
    """End with ``exit_code``; ``reason`` is a sentence, ``cause`` the root cause of the job.

    ``kills``: kill the ranks first, without grace. ``farewell`` is tried once, if etcd answers.
    """

    exit_code: int
    reason: str
    cause: Cause | None = None
    kills: bool = False
    farewell: RecordChange | None = None


class RecordChange(Struct, frozen=True):
    """If every compare holds, all puts and deletes at once; else read again.

    Keys are relative to the job's prefix. ``job`` is the id from which the job's lease follows.
    ``then`` is what to do next if it has succeeded; otherwise, or without it, read again.
    """

    why: str
    job: str
    compares: tuple[KeyIs, ...]
    puts: tuple[KeyWritten, ...] = ()
    deletes: tuple[str, ...] = ()
    then: Exit | None = None


Act = RecordChange | Read | WaitUntil | EndRanks | StartRanks | Forget | Exit
