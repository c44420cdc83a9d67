"""The servers of a job that still need its etcd, and its end without the first server; pure."""

from __future__ import annotations

from msgspec.structs import replace

from ascend_supervisor.coordination.agreement import keys
from ascend_supervisor.coordination.agreement.acts import Lease, Put, Transaction
from ascend_supervisor.coordination.agreement.records import Cause, Phase, encode
from ascend_supervisor.coordination.agreement.view import View
from ascend_supervisor.errors import TABLE_NOT_READY, UNAVAILABLE
from ascend_supervisor.outcome import SIGNAL_BASE

TOLD_TO_STOP = SIGNAL_BASE + 15
"""Of SIGTERM. Every other end of the first server was written by itself, or is a loss."""


def others_here(view: View, own: int) -> tuple[int, ...]:
    """The other servers that have keys in etcd: who has read the end deletes them."""
    present = {index for index, member in view.members.items() if not member.has_left}
    return tuple(sorted((present | set(view.alive)) - {own}))


def told_of(others: tuple[int, ...] | None) -> str:
    """What an etcd that stays for ``others`` waits for; None: it has not answered who is left."""
    if others is None:
        return "the etcd of the job does not answer; it stays in case the other servers need it"
    numbers = ", ".join(map(str, others))
    which = f"server {numbers} has" if len(others) == 1 else f"servers {numbers} have"
    return f"the etcd of the job stays until {which} read the end of the job"


def may_finish(view: View, own: int) -> bool:
    """Whether the ranks of the others may still end with 0, as ours have."""
    return view.epoch is not None and view.epoch.phase is Phase.RUN and own in view.done


def end_without_us(view: View, own: int, stamp: str) -> Transaction | None:
    """The end of a job whose first server leaves; None if it has ended, or has not begun.

    Nobody can take its place, because the etcd of the job ends with it. ``stamp`` is a new word.
    """
    epoch, about = view.epoch, view.about
    if epoch is None or about is None or epoch.phase is Phase.END:
        return None
    why = f"server {own}, the first, has left, and the etcd of the job ends with it"
    known = about.cause
    cause = known if known and known.server == own else Cause(own, TOLD_TO_STOP, why)
    is_retryable = cause.exit_code in {UNAVAILABLE, TABLE_NOT_READY}
    ended = replace(epoch, phase=Phase.END, exit_code=cause.exit_code, stamp=stamp)
    told = replace(about, cause=cause, is_retryable=is_retryable, why=why, stamp=stamp)
    puts = (
        Put(keys.EPOCH, encode(ended), Lease.JOB),
        Put(keys.ABOUT, encode(told), Lease.JOB),
    )
    return Transaction(why, epoch.job, view.unchanged(keys.EPOCH), puts)
