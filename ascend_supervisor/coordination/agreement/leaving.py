"""Lines by which a server that keeps failing, or is unable, leaves its place to a spare.

It gives the place up in ``gather``, only for a spare that has said that it waits. One that keeps
failing takes it again if none takes it, and ends when the others run without it. One that is unable
ends at once.
"""

from __future__ import annotations

from msgspec.structs import replace

from ascend_supervisor.coordination.agreement import records
from ascend_supervisor.coordination.agreement.acts import Act, Exit, Forget, Read, RecordChange
from ascend_supervisor.coordination.agreement.case import Case
from ascend_supervisor.coordination.agreement.failing import (
    counts,
    failures_known,
    first_of_unable,
    own_failures,
    spares_for,
    vacancies,
)
from ascend_supervisor.coordination.agreement.gathering import named
from ascend_supervisor.coordination.agreement.history import (
    MOST_KEPT,
    LeftServer,
    is_recent,
    why_left,
)
from ascend_supervisor.coordination.agreement.membership import own_record_left
from ascend_supervisor.coordination.agreement.records import Cause, Spare
from ascend_supervisor.coordination.agreement.writing import (
    deletes,
    new_epoch,
    put,
    what_follows,
)
from ascend_supervisor.errors import UNAVAILABLE
from ascend_supervisor.outcome import Crashed, Ended, Fault, Remedy
from ascend_supervisor.untrusted_text import clipped, printable

LEAVES = "we leave to a spare"
LEFT_TO_A_SPARE = "we have left our place to a spare"
OF_SERVER = "this server "
"""How a sentence begins of which the others get the rest."""
MOST_OF_REASON = 200


def offer(case: Case) -> Act | None:
    """We wait for a place: say so, because only then a server leaves one."""
    situation, own = case.situation, case.rules.own
    if case.index is not None or (case.gathering is None and case.running is None):
        return None
    if situation.leftovers:
        return None
    spare, name = Spare(own.incarnation, own.machine, own.index), records.spare_key(own.incarnation)
    if own_failures(case) or case.view.spares.get(name) == spare or case.view.known is not None:
        return None
    compares = case.view.unchanged(records.EPOCH_KEY, name)
    return RecordChange(compares, (put(name, spare, own.incarnation),), why="we are a spare")


def not_to_blame(case: Case) -> Act | None:
    """The failure here was told before its last words were known, and these clear this server."""
    cause, verdict = case.about.cause, case.situation.verdict
    if case.gathering is None or case.member is None or cause is None or verdict is None:
        return None
    first, outcome = cause.first, verdict.outcome
    is_ours = first is not None and case.rules.own.incarnation == first.incarnation
    if not is_ours or not isinstance(outcome, Crashed) or counts(outcome):
        return None
    about = replace(case.about, cause=replace(cause, first=None))
    return new_epoch(case, f"{cause.reason}, which is not the server's", case.epoch, about)


def leave_place(case: Case) -> Act | None:
    """We were the first to fail too often, and a spare is there that no other place needs."""
    index, found, own = case.index, own_failures(case), case.rules.own
    if case.gathering is None or case.has_ranks or case.member is None or index is None:
        return None
    if not found or found[-1].incarnation != own.incarnation or case.situation.stop is not None:
        return None  # others on this machine have failed, not we; or we leave anyway
    spares = _spares_left(case, index)
    if case.about.pending is not None or case.view.known is not None or not spares:
        return None
    return _given_up(case, index, spares, why_left(found, failures_known(case)))


def leave_unable(case: Case) -> Act | None:
    """We cannot do our part, and a spare is there for our place: that costs nothing.

    Whatever else we failed before. Without a spare for us the lines that follow say what a server
    costs that is unable: of two, one leaves for one spare.
    """
    index, unable = case.index, case.situation.unable
    if not unable or index is None or case.member is None:
        return None
    if case.gathering is None and not (case.running is not None and case.in_roster):
        return None
    if case.view.known is not None:
        return Read()  # of many servers we have read what is near, and no spare
    spares = _spares_left(case, index)
    if not spares:
        return None
    if case.running is not None:  # places are left in ``gather``
        reason = f"{named(index, case.member.shown)}: {unable}"
        ended = Ended(Fault(reason, UNAVAILABLE, Remedy.FREE), 0.0)
        cause = Cause(index, UNAVAILABLE, reason, first=first_of_unable(case, unable))
        return what_follows(case, ended, cause, case.view.unchanged(*spares))
    reason = clipped(printable(unable.removeprefix(OF_SERVER)), MOST_OF_REASON)
    return replace(_given_up(case, index, spares, reason), afterwards=_end_of_unable(unable))


def _end_of_unable(unable: str) -> Exit:
    return Exit(UNAVAILABLE, f"{unable}; {LEFT_TO_A_SPARE}", left_to_spare=True)


def _spares_left(case: Case, index: int) -> tuple[str, ...]:
    """The keys of so many spares that one is left for our place; none if there are too few."""
    spares, needed = spares_for(case, index), vacancies(case) + 1
    return spares[:needed] if len(spares) >= needed else ()


def _given_up(case: Case, index: int, spares: tuple[str, ...], reason: str) -> RecordChange:
    """Our place is free, as long as these spares are there."""
    assert case.member is not None  # noqa: S101
    who, now = case.rules.own.incarnation, case.clocks.date
    ours = LeftServer(index, who, case.epoch.generation, now, case.member.shown, reason)
    before = tuple(one for one in case.about.left if is_recent(one, now))
    about = replace(case.about, left=(*before, ours)[-MOST_KEPT:])
    server, alive = case.own_key_names()
    marks = case.view.marks_of(index)
    compares = case.view.unchanged(server, alive, *marks, *spares)
    written = new_epoch(case, LEAVES, case.epoch, about, compares)
    return replace(written, then=(*written.then, own_record_left(case), *deletes(alive, *marks)))


def forget_place(case: Case) -> Act | None:
    """We have left to a spare, and the answer was lost; the spare may be there by now."""
    member = case.member
    if case.index is None or case.situation.stop is not None or _own_leave(case) is None:
        return None
    return Forget() if member is None or member.has_left else None


def end_left(case: Case) -> Act | None:
    """We have left; the others run without us, or we are unable and do not wait for that."""
    ours, unable = _own_leave(case), case.situation.unable
    if ours is None or case.index is not None:
        return None
    if unable:
        return _end_of_unable(unable)
    seats = {seat.incarnation for seat in case.roster}
    if case.rules.own.incarnation in seats:
        return None
    return Exit(UNAVAILABLE, f"{OF_SERVER}{ours.reason}; a spare has taken its place")


def _own_leave(case: Case) -> LeftServer | None:
    """When we have left last; None if we have run since."""
    own, started = case.rules.own.incarnation, case.memory.started
    left = (one for one in reversed(case.about.left) if one.incarnation == own)
    ours = next(left, None)
    return ours if ours and started is not None and started < ours.generation else None
