"""Lines for the phase ``run``: a member is lost, or the ranks fail.

A failure that may be that of the cluster ends the ranks of all servers at once; what it costs is
known later, because the next ``run`` waits for the word of the cluster.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.coordination.agreement import records
from ascend_supervisor.coordination.agreement.acts import Act, RecordChange, StartRanks
from ascend_supervisor.coordination.agreement.case import Case
from ascend_supervisor.coordination.agreement.causes import cause_of, is_consequence
from ascend_supervisor.coordination.agreement.failing import first_on
from ascend_supervisor.coordination.agreement.gathering import MOST_ANSWERED
from ascend_supervisor.coordination.agreement.history import FirstFailure
from ascend_supervisor.coordination.agreement.membership import (
    farewell,
    farewell_with_done,
    own_done,
)
from ascend_supervisor.coordination.agreement.records import Cause
from ascend_supervisor.coordination.agreement.situation import JobRules
from ascend_supervisor.coordination.agreement.writing import (
    new_epoch,
    pending,
    put,
    settled,
    the_end,
    what_follows,
)
from ascend_supervisor.errors import UNAVAILABLE
from ascend_supervisor.evidence.blame import is_caused_here
from ascend_supervisor.life import loss_of
from ascend_supervisor.outcome import SIGNAL_BASE, Crashed, Ended, Failure, Fault, Outcome, Remedy


class LostMember(Struct, frozen=True):
    """A member that has no ranks any more, as far as is known.

    ``keys`` must not have changed when the loss is written. ``is_free``: it said farewell, or
    another process has its index.
    """

    index: int
    is_free: bool
    keys: tuple[str, ...]


def loss(case: Case) -> LostMember | None:
    """The first member that is lost; None as long as an absence may have another reason."""
    if case.is_cautious:
        return None
    for index in case.view.those_known(len(case.roster)):
        if index < len(case.roster) and (lost := _loss_of(case, index)) is not None:
            return lost
    return None


def _loss_of(case: Case, index: int) -> LostMember | None:
    seat, view = case.roster[index], case.view
    if view.alive.get(index) == seat.incarnation or case.has_done(index):
        return None
    member = view.members.get(index)
    is_free = member is not None and (member.has_left or member.incarnation != seat.incarnation)
    # Its record is gone, too: etcd may have lost data. Or we have no key of our own by which to
    # notice that etcd has stood still, and that all leases are gone. Or a stranger has written to
    # its ``alive``, and it will put it again.
    is_overwritten = records.alive_key(index) in view.values and not is_free
    is_doubtful = member is None or case.member is None or is_overwritten
    if is_doubtful and not _is_long_gone(case, index):
        return None
    done = records.done_key(case.epoch.generation, index)
    return LostMember(index, is_free, (records.alive_key(index), records.server_key(index), done))


def _is_long_gone(case: Case, index: int) -> bool:
    absence = case.memory.absence(index)
    return absence is not None and case.clocks.now - absence.since >= case.rules.ttl


def is_the_clusters(case: Case) -> Act | None:
    """The cluster recovers, so the failure was its own: it costs nothing."""
    told, uptime = case.situation.cluster, case.about.pending
    if case.gathering is None or case.member is None or uptime is None or told is None:
        return None
    assert case.index is not None  # noqa: S101
    cause = Cause(case.index, told.exit_code or UNAVAILABLE, told.reason)
    return settled(case, Ended(told, uptime), cause)


def charge(case: Case) -> Act | None:
    """The cluster has said nothing in time, or need not be asked: the failure is charged.

    As long as others are missing it may still say that it replaces them.
    """
    uptime, cause = case.about.pending, case.about.cause
    if case.gathering is None or case.member is None or uptime is None or cause is None:
        return None
    if (known := _failure_here(case, cause)) is not None and is_caused_here(known):
        return settled(
            case, Ended(Crashed(known), uptime), replace(cause, failure=known.to_be_sent)
        )
    is_over = case.clocks.now >= case.memory.phase_seen + case.rules.verdict
    if not is_over or len(case.view.living) < case.rules.servers:
        return None
    return settled(case, Ended(_outcome(cause), uptime), cause)


def may_be_the_clusters(ended: Ended, rules: JobRules) -> bool:
    """Whether a cluster that is followed is to be heard before this end is charged."""
    if not rules.verdict or ended.left:
        return False
    match ended.decisive:
        case Crashed(failure=failure):
            is_ruled_out = rules.budget.rules_out(failure) is not None
            return not is_ruled_out and not is_caused_here(failure)
        case Fault(remedy=remedy):
            return remedy is Remedy.CHARGED
        case _:
            return False


def _failure_here(case: Case, cause: Cause) -> Failure | None:
    """The failure that was told, with all that became known since; None if it is not ours."""
    verdict, told = case.situation.verdict, cause.failure
    if cause.server != case.index or verdict is None or told is None:
        return None
    match verdict.decisive:
        case Crashed(failure=failure) if failure.generation == told.generation:
            return failure
        case _:
            return None


def _outcome(cause: Cause) -> Outcome:
    if cause.failure is not None:
        return Crashed(cause.failure)
    return Fault(cause.reason, cause.exit_code)


def success(case: Case) -> Act | None:
    return the_end(case, 0, None) if case.all_done else None


def say_done(case: Case) -> Act | None:
    """Our ranks have all ended with 0. This is kept for as long as the job: it is no loss."""
    mark = own_done(case)
    if mark is None or case.running is None or case.index is None or case.has_done(case.index):
        return None
    name = records.done_key(case.running, case.index)
    compares = case.view.unchanged(records.EPOCH_KEY, *case.own_key_names(), name)
    then = (put(name, mark, case.job),)
    return RecordChange(compares, then, why="our ranks ended with 0")


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
    where = _in_brackets(_host(case, case.index))
    reason = f"server {case.index} was told to stop{where}"
    cause = Cause(case.index, code, reason)
    return what_follows(case, Ended(Fault(reason, code, Remedy.FREE), _uptime(case)), cause)


def _loss(case: Case) -> Act | None:
    lost = loss(case)
    if lost is None:
        return None
    reason = f"{loss_of(lost.index)}{_in_brackets(_host(case, lost.index))}"
    cause = Cause(lost.index, UNAVAILABLE, reason, first=_first_of(case, lost, reason))
    lost_keys = case.view.unchanged(*lost.keys)
    if case.rules.verdict and not lost.is_free:
        return pending(case, _uptime(case), cause, lost_keys)
    remedy = Remedy.FREE if lost.is_free else Remedy.CHARGED
    ended = Ended(Fault(reason, UNAVAILABLE, remedy), _uptime(case))
    return what_follows(case, ended, cause, lost_keys)


def lost_first(case: Case) -> Act | None:
    """What was told is a consequence, and one server is lost: it was first.

    Its lease ends later than the ranks that have lost its own. It counts against its machine,
    whoever runs there next. In a job of many servers nobody knows who is absent.
    """
    cause, view = case.about.cause, case.view
    if case.gathering is None or case.member is None or case.is_cautious or cause is None:
        return None
    if cause.first is not None or cause.failure is None or not is_consequence(cause.failure):
        return None
    if view.known is not None or case.about.again:
        return None
    generation, seats = cause.failure.generation, enumerate(case.roster)
    gone = [index for index, seat in seats if view.alive.get(index) != seat.incarnation]
    if len(gone) != 1 or not _has_vanished(case, gone[0], generation):
        return None  # of several, the first is unknown
    member = view.members[gone[0]]
    reason = loss_of(gone[0])
    first = first_on(case, gone[0], member.machine, member.incarnation, generation, reason)
    if first is None:
        return None
    about = replace(case.about, cause=replace(cause, first=first))
    return new_epoch(case, f"{reason}, before what was told", case.epoch, about)


def _has_vanished(case: Case, index: int, generation: int) -> bool:
    """Whether a server that has run ``generation`` is gone without a farewell."""
    member, values = case.view.members.get(index), case.view.values
    if member is None or member.has_left or member.incarnation != case.roster[index].incarnation:
        return False
    keys = records.alive_key(index), records.done_key(generation, index)
    return not any(key in values for key in keys)


def _first_of(case: Case, lost: LostMember, reason: str) -> FirstFailure | None:
    """What counts against a server that was lost; not against one that has left."""
    member = case.view.members.get(lost.index)
    if lost.is_free or member is None:
        return None
    who = (lost.index, member.machine, member.incarnation)
    return first_on(case, *who, case.epoch.generation, reason)


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
