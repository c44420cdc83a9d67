"""Lines about our own keys: take an index, keep it, and leave."""

from __future__ import annotations

from msgspec.structs import replace

from ascend_supervisor.coordination.agreement import keys
from ascend_supervisor.coordination.agreement.acts import (
    Act,
    Compare,
    Exit,
    Forget,
    Lease,
    Transaction,
)
from ascend_supervisor.coordination.agreement.case import Case
from ascend_supervisor.coordination.agreement.indices import free_indices
from ascend_supervisor.coordination.agreement.records import Mark
from ascend_supervisor.coordination.agreement.situation import Ranks
from ascend_supervisor.coordination.agreement.writing import put, the_end
from ascend_supervisor.errors import USAGE
from ascend_supervisor.outcome import SIGNAL_BASE


def move(case: Case) -> Act | None:
    """The rank table gives us another index: ours is free for others from now on.

    Everybody may do so at once: who has moved takes part as a newcomer does.
    """
    member, given = case.member, case.rules.own.index
    if case.gathering is None or case.has_ranks or member is None or given in {None, case.index}:
        return None
    if member.has_left:
        return Forget()  # the answer was lost
    assert case.index is not None  # noqa: S101
    server, alive = case.own_key_names()
    marks = case.view.marks_of(case.index)
    return Transaction(
        f"move to index {given}",
        case.job,
        case.view.unchanged(keys.EPOCH, server, alive, *marks),
        (put(server, replace(case.own_record(case.job), has_left=True)),),
        (alive, *marks),
    )


def has_left(case: Case) -> Act | None:
    """Our farewell is written, although its answer may have been lost."""
    member = case.member
    if member is None or not member.has_left or case.situation.stop is None:
        return None
    return Exit(_stop_code(case), "told to stop; the other servers know")


def keep_own_keys(case: Case) -> Act | None:
    """Our record or our ``alive`` is gone or changed: a stall, a loss of data, a stranger."""
    if case.index is None or case.view.epoch is None:
        return None
    own = case.own_key_names()
    is_alive = case.view.alive.get(case.index) == case.rules.own.incarnation
    if case.member == case.own_record(case.job) and is_alive:
        return None
    puts = [
        put(own[0], case.own_record(case.job)),
        put(own[1], case.beat, Lease.ALIVE),
    ]
    names = [keys.EPOCH, *own]
    if (mark := own_done(case)) is not None:
        done = keys.done(case.epoch.generation, case.index)
        names.append(done)
        puts.append(put(done, mark))
    return Transaction("our keys were gone", case.job, case.view.unchanged(*names), tuple(puts))


def own_done(case: Case) -> Mark | None:
    """What our ``done`` holds, once all our ranks of the running generation have ended with 0."""
    situation = case.situation
    if not case.in_roster or situation.ranks is not Ranks.SUCCEEDED:
        return None
    if case.running is None or situation.generation != case.running:
        return None
    return Mark(case.rules.own.incarnation, situation.table or "")


def refuse_ourselves(case: Case) -> Act | None:
    """We cannot take part, and nobody counts on us yet."""
    if case.index is not None or (case.gathering is None and case.running is None):
        return None
    obstacle = case.situation.obstacle
    if obstacle is not None and case.gathering is not None:
        return Exit(obstacle.exit_code, obstacle.reason)
    theirs, ours = case.about.settings, case.rules.settings
    if theirs == ours:
        return None
    return Exit(USAGE, f"this server was started with {_apart(ours, theirs)}")


def _apart(ours: str, theirs: str) -> str:
    """The words of two lists of settings that differ."""
    mine, its = ours.split(), theirs.split()
    here = " ".join(word for word in mine if word not in its)
    there = " ".join(word for word in its if word not in mine)
    return (
        f"{here}, and the job with {there}; start all its servers with the same settings and "
        "command, and give another job another name (--peers-job)"
    )


def take_index(case: Case) -> Act | None:
    """Take a free index."""
    if case.gathering is None or case.index is not None or case.situation.leftovers:
        return None
    free = free_indices(case)
    if not free:
        return None
    index = free[int(case.clocks.fraction * len(free))]
    own, marks = (keys.server(index), keys.alive(index)), case.view.marks_of(index)
    puts = (put(own[0], case.own_record(case.job)), put(own[1], case.beat, Lease.ALIVE))
    compares = case.view.unchanged(keys.EPOCH, *own, *marks)
    return Transaction(f"take index {index}", case.job, compares, puts, marks)


def farewell(case: Case) -> Act | None:
    """Say that we leave; somebody must stay who sees it, else it is the end of the job."""
    index, others = case.index, case.others_living
    assert index is not None  # noqa: S101
    if not others:
        return _last_one_leaves(case)
    server, alive = case.own_key_names()
    ready = keys.ready(case.epoch.generation, index)
    gone = replace(case.own_record(case.job), has_left=True)
    return Transaction(
        "we leave",
        case.job,
        case.view.unchanged(keys.EPOCH, server, alive, keys.alive(others[0])),
        (put(server, gone),),
        (alive, ready),
        then=Exit(_stop_code(case), "told to stop; the other servers know"),
    )


def farewell_with_done(case: Case) -> Act | None:
    """Leave with our ``done`` in place; somebody must stay who counts it."""
    others = case.others_living
    if not others:
        return _last_one_leaves(case)
    alive = case.own_key_names()[1]
    compares: tuple[Compare, ...] = case.view.unchanged(keys.EPOCH, alive, keys.alive(others[0]))
    left = Exit(_stop_code(case), "told to stop; our ranks had ended with 0")
    return Transaction("we leave, done", case.job, compares, deletes=(alive,), then=left)


def _last_one_leaves(case: Case) -> Act | None:
    """The end of the job, unless somebody who was only away has come back meanwhile."""
    if case.is_cautious or case.index is None:
        return None
    missing = [keys.alive((case.index + 1) % case.rules.servers)]
    if case.running is not None:
        undone = (index for index in range(len(case.roster)) if not case.has_done(index))
        missing += [keys.done(case.running, index) for index in undone][:1]
    compares = case.view.unchanged(*missing)
    return the_end(case, _stop_code(case), None, compares, "all servers were told to stop")


def _stop_code(case: Case) -> int:
    stop = case.situation.stop
    return SIGNAL_BASE + (15 if stop is None else stop)
