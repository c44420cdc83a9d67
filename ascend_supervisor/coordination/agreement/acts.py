"""What a server does next: one transaction in etcd, or one act at home; values."""

from __future__ import annotations

from msgspec import Struct

from ascend_supervisor.coordination.agreement import records
from ascend_supervisor.coordination.agreement.records import About, Cause, Seat
from ascend_supervisor.etcd.values import Put, Transaction


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
    ``left_to_spare``: we were unable, and a spare has our place.
    """

    exit_code: int
    reason: str
    cause: Cause | None = None
    kills: bool = False
    farewell: RecordChange | None = None
    left_to_spare: bool = False


class RecordChange(Transaction, frozen=True, kw_only=True):
    """A transaction in etcd; its keys are relative to the job's prefix. ``why`` says what it does.

    ``about`` is that of an epoch which it writes, with the roster that belongs to it.
    ``afterwards`` is what to do next if it has succeeded; otherwise, or without it, read again.
    """

    why: str
    about: About | None = None
    afterwards: Exit | None = None

    @property
    def is_counted(self) -> bool:
        """Whether it puts what all must have put before the epoch can change."""
        words = {records.READY, records.DONE}
        return any(isinstance(one, Put) and one.key.split("/")[0] in words for one in self.then)


Act = RecordChange | Read | WaitUntil | EndRanks | StartRanks | Forget | Exit
