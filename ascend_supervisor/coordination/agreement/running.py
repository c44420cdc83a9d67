"""Lines for the phase ``run``."""

from __future__ import annotations

from msgspec.structs import replace

from ascend_supervisor.coordination.agreement import keys
from ascend_supervisor.coordination.agreement.acts import Act, StartRanks, Transaction
from ascend_supervisor.coordination.agreement.case import Case
from ascend_supervisor.coordination.agreement.causes import cause_of, is_consequence
from ascend_supervisor.coordination.agreement.gathering import MOST_ANSWERED
from ascend_supervisor.coordination.agreement.losses import loss
from ascend_supervisor.coordination.agreement.membership import (
    farewell,
    farewell_with_done,
    own_done,
)
from ascend_supervisor.coordination.agreement.pending import may_be_the_clusters
from ascend_supervisor.coordination.agreement.records import Cause
from ascend_supervisor.coordination.agreement.writing import (
    new_epoch,
    pending,
    put,
    the_end,
    what_follows,
)
from ascend_supervisor.errors import UNAVAILABLE
from ascend_supervisor.outcome import (
    SIGNAL_BASE,
    Ended,
    Fault,
    Remedy,
)


def success(case: Case) -> Act | None:
    return the_end(case, 0, None) if case.all_done else None


def say_done(case: Case) -> Act | None:
    """Our ranks have all ended with 0. This is kept for as long as the job: it is no loss."""
    mark = own_done(case)
    if mark is None or case.running is None or case.index is None or case.has_done(case.index):
        return None
    name = keys.done(case.running, case.index)
    compares = case.view.unchanged(keys.EPOCH, *case.own_key_names(), name)
    return Transaction("our ranks ended with 0", case.job, compares, (put(name, mark),))


def leave_unneeded(case: Case) -> Act | None:
    """Told to stop, and no part of what runs."""
    if case.running is None or case.member is None or case.in_roster:
        return None
    return farewell(case) if case.situation.stop is not None else None


def leave_done(case: Case) -> Act | None:
    """Told to stop after our ranks have ended with 0."""
    if case.running is None or not case.in_roster or case.index is None:
        return None
    if case.situation.stop is None or not case.has_done(case.index):
        return None
    return farewell_with_done(case)


def stop_running(case: Case) -> Act | None:
    """A reason to end the generation: written before any rank gets a signal.

    A newcomer without an index writes a loss, too: there may be nobody else.
    """
    if case.running is None:
        return None
    return _own_failure(case) or _own_farewell(case) or _loss(case)


def start_ranks(case: Case) -> Act | None:
    generation, started = case.running, case.memory.started
    if generation is None or not case.in_roster:
        return None
    if started is not None and started >= generation:
        return None
    return StartRanks(generation, case.roster)


def confirm(case: Case) -> Act | None:
    """A RetryTime that belongs to the restart that was: others will see it later."""
    told, known = case.situation.confirmed, case.about.answered
    if case.running is None or not case.in_roster or told is None or told in known:
        return None
    about = replace(case.about, answered=(*known, told)[-MOST_ANSWERED:])
    return new_epoch(case, f"RetryTime {told} belongs to the last restart", case.epoch, about)


def _own_failure(case: Case) -> Act | None:
    situation = case.situation
    if situation.verdict is None or situation.generation != case.running or not case.in_roster:
        return None
    if (cause := cause_of(case, situation.verdict)) is None:
        return None
    if case.is_cautious and is_consequence(cause.failure):
        return None  # etcd was away: the server whose failure is the cause tells it first
    if may_be_the_clusters(situation.verdict, case.rules):
        return pending(case, situation.verdict.uptime, cause)
    return what_follows(case, situation.verdict, cause)


def _own_farewell(case: Case) -> Act | None:
    stop = case.situation.stop
    if stop is None or not case.in_roster or case.index is None or case.has_done(case.index):
        return None
    code = SIGNAL_BASE + stop
    reason = f"server {case.index} was told to stop{_in_brackets(_host(case, case.index))}"
    cause = Cause(case.index, code, reason)
    return what_follows(case, Ended(Fault(reason, code, Remedy.FREE), _uptime(case)), cause)


def _loss(case: Case) -> Act | None:
    lost = loss(case)
    if lost is None:
        return None
    reason = f"server {lost.index} was lost{_in_brackets(_host(case, lost.index))}"
    cause, lost_keys = Cause(lost.index, UNAVAILABLE, reason), case.view.unchanged(*lost.keys)
    if case.rules.verdict and not lost.is_free:
        return pending(case, _uptime(case), cause, lost_keys)
    remedy = Remedy.FREE if lost.is_free else Remedy.CHARGED
    ended = Ended(Fault(reason, UNAVAILABLE, remedy), _uptime(case))
    return what_follows(case, ended, cause, lost_keys)


def _host(case: Case, index: int) -> str:
    """What names the member to people; its record may be that of a newcomer by now."""
    seat, member = case.roster[index], case.view.members.get(index)
    if member is not None and member.incarnation == seat.incarnation and member.host:
        return member.host
    return ", ".join(seat.addresses)


def _in_brackets(host: str) -> str:
    return f" ({host})" if host else ""


def _uptime(case: Case) -> float:
    return case.clocks.now - case.memory.phase_seen
