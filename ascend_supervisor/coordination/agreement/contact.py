"""Lines for a server that may have lost etcd; they need nothing that was read."""

from __future__ import annotations

from ascend_supervisor.coordination.agreement import records
from ascend_supervisor.coordination.agreement.acts import (
    Act,
    EndRanks,
    Exit,
    Read,
    RecordChange,
    WaitUntil,
)
from ascend_supervisor.coordination.agreement.case import Home
from ascend_supervisor.coordination.agreement.records import Cause, Epoch, encode
from ascend_supervisor.coordination.agreement.situation import Ranks
from ascend_supervisor.coordination.agreement.writing import deletes
from ascend_supervisor.errors import UNAVAILABLE
from ascend_supervisor.etcd.values import Equals
from ascend_supervisor.outcome import SIGNAL_BASE, Crashed


def fence(home: Home) -> Act | None:
    """No contact for too long: others may soon take our place, so our ranks are killed."""
    if home.contact_age < home.rules.patience:
        return None
    age = f"{home.contact_age:.0f} s"
    if (ended := home.memory.ended) is not None:
        return Exit(ended.exit_code, f"the job has ended; etcd was lost {age} ago", kills=True)
    if (stop := home.situation.stop) is not None:
        return Exit(SIGNAL_BASE + stop, f"told to stop; etcd was lost {age} ago", kills=True)
    reason = f"etcd has not confirmed this server for {age}"
    return Exit(UNAVAILABLE, reason, _guardian(home, reason), kills=True)


def _guardian(home: Home, reason: str) -> Cause | None:
    """The cause where our ranks were killed at the fence: else their death would be it.

    We come too late for that only if we were frozen or stuck. A failure of before stays the cause.
    """
    is_late = home.contact_age >= home.rules.fence
    if not is_late or home.index is None or not home.has_ranks or not _may_be_killed(home):
        return None
    why = f"{reason}, so its ranks were killed (--peers-fence); the supervisor stood still"
    return Cause(home.index, UNAVAILABLE, why)


def _may_be_killed(home: Home) -> bool:
    """Whether SIGKILL is all that is known of our ranks, if anything is known already."""
    verdict = home.situation.verdict
    if verdict is None:
        return True
    outcome = verdict.outcome
    return isinstance(outcome, Crashed) and outcome.failure.status.signal_name == "SIGKILL"


def job_ended(home: Home) -> Act | None:
    """Our job has ended, also if its ``end`` is gone from etcd since."""
    ended = home.memory.ended
    if ended is None:
        return None
    if home.has_ranks:
        return ending_ranks(home, f"the job ends with {ended.exit_code}")
    cause = home.memory.about.cause if home.memory.about else None
    return Exit(
        ended.exit_code, "the job has ended", cause, farewell=_without_own_keys(home, ended)
    )


def stop_without_contact(home: Home) -> Act | None:
    """Told to stop while etcd does not answer: to the others it is a loss."""
    stop = home.situation.stop
    if stop is None or home.contact_age <= home.rules.ttl:
        return None
    if home.has_ranks:
        return ending_ranks(home, "told to stop")
    return Exit(SIGNAL_BASE + stop, "told to stop; etcd does not answer")


def look_first(home: Home) -> Act | None:
    """What was read is too old to act on."""
    read, now, ttl = home.memory.read, home.clocks.now, home.rules.ttl
    is_old = read is None or now - read > ttl
    return Read() if is_old and home.contact_age > ttl else None


CONTACT_LINES = (fence, job_ended, stop_without_contact, look_first)


def ending_ranks(home: Home, reason: str) -> Act:
    """End our ranks, or wait for their end; the fence may fall meanwhile."""
    if home.situation.ranks is not Ranks.ENDING:
        return EndRanks(reason)
    return WaitUntil(home.memory.contact + home.rules.patience, "our ranks are being ended")


def _without_own_keys(home: Home, ended: Epoch) -> RecordChange | None:
    """All our keys go: a new job waits for that. A generation's marks outlive it by one.

    Not if the end is gone from etcd: the others then need our ``done``.
    """
    index, last = home.index, ended.generation
    if index is None:
        return None
    marks = [
        key(number, index)
        for key in (records.ready_key, records.done_key)
        for number in range(max(0, last - 1), last + 1)
    ]
    own = Equals(records.server_key(index), encode(home.own_record(ended.job)))
    end = Equals(records.EPOCH_KEY, encode(ended))
    gone = deletes(records.server_key(index), records.alive_key(index), *marks)
    return RecordChange((end, own), gone, why="the job has ended")
