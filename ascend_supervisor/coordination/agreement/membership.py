"""Lines about our own keys and about the epoch itself.

We take an index, keep it, and leave; the epoch is missing, fell back, belongs to another job, or
ended before we came. Indices change hands in ``gather`` only.
"""

from __future__ import annotations

from msgspec.structs import replace

from ascend_supervisor.coordination.agreement import records
from ascend_supervisor.coordination.agreement.acts import (
    Act,
    Exit,
    Forget,
    RecordChange,
)
from ascend_supervisor.coordination.agreement.case import Case
from ascend_supervisor.coordination.agreement.contact import ending_ranks
from ascend_supervisor.coordination.agreement.failing import is_for_others
from ascend_supervisor.coordination.agreement.records import Beat, Epoch, Phase, PhaseMark
from ascend_supervisor.coordination.agreement.situation import VERSION, Ranks
from ascend_supervisor.coordination.agreement.writing import deletes, new_epoch, put, the_end
from ascend_supervisor.errors import UNAVAILABLE, USAGE
from ascend_supervisor.etcd.values import Put
from ascend_supervisor.outcome import SIGNAL_BASE


def stop_without_index(case: Case) -> Act | None:
    """Told to stop before we took part: nobody needs to hear of it."""
    stop = case.situation.stop
    if stop is None or case.index is not None or case.all_done:
        return None
    if case.has_ranks:
        return ending_ranks(case, "told to stop")
    return Exit(SIGNAL_BASE + stop, "told to stop")


def restore_epoch(case: Case) -> Act | None:
    """Data were lost, or damaged: whoever remembers more puts it again. The highest one stays."""
    known, found = case.memory.epoch, case.view.epoch
    if known is None or (found is not None and not _is_older(case, found, known)):
        return None
    about = case.memory.about or case.first_about
    why = case.view.damaged_epoch or "etcd has lost data"
    return new_epoch(case, why, known, replace(about, again=True))


def _is_older(case: Case, found: Epoch, known: Epoch) -> bool:
    """Whether etcd holds what was true before.

    Another job that has ended is an old one: none of this name begins while a member of ours has
    confirmed itself within the fence.
    """
    if found.job != known.job:
        return found.phase is Phase.END and case.index is not None
    return found.phase is not Phase.END and found.order < known.order


def come(case: Case) -> Act | None:
    """We know no job, and etcd none: say so, because as many as make a job need not wait."""
    if not _knows_no_job(case):
        return None
    own = case.rules.own
    name = records.newcomer_key(own.index, own.incarnation)
    if name in case.view.values:
        return None
    then = (put(name, Beat(own.incarnation), own.incarnation),)
    return RecordChange(case.view.unchanged(records.EPOCH_KEY, name), then, why="we have come")


def first_epoch(case: Case) -> Act | None:
    """Nobody has put an epoch for one TTL, so there is no job yet.

    Nor is there if all have come, and know none, and nobody else has put one soon.
    """
    since = case.memory.epoch_missing
    if not _knows_no_job(case) or since is None:
        return None
    have_all_come = case.view.newcomers >= case.rules.servers
    wait = min(case.rules.soon, case.rules.ttl) if have_all_come else case.rules.ttl
    return first_gathering(case) if case.clocks.now - since >= wait else None


def _knows_no_job(case: Case) -> bool:
    """An epoch that is damaged may be that of servers that are only away."""
    return records.EPOCH_KEY not in case.view.values and case.memory.epoch is None


def first_gathering(case: Case) -> Act:
    """A new job, with an id of its own."""
    epoch = Epoch(case.clocks.word, 0, Phase.GATHER, "")
    return new_epoch(case, "a new job", epoch, case.first_about)


def displaced(case: Case) -> Act | None:
    """Another job runs under our name, or another process has our index."""
    known, found = case.memory.epoch, case.view.epoch
    is_other_job = known is not None and found is not None and known.job != found.job
    if not is_other_job and not _has_other_owner(case):
        return None
    if case.memory.started is None:
        return Forget()
    reason = "another job uses our keys" if is_other_job else "another process has our index"
    return Exit(UNAVAILABLE, reason, kills=True)


def _has_other_owner(case: Case) -> bool:
    return case.index is not None and case.index in case.view.members and case.member is None


def free_indices(case: Case) -> tuple[int, ...]:
    """Those that this server may take; with a given index, that one or none."""
    given = case.rules.own.index
    wanted = range(case.rules.servers) if given is None else (given,)
    return tuple(index for index in wanted if is_free(case, index))


def is_free(case: Case, index: int) -> bool:
    """Whether nobody else's ranks can belong to this index any more."""
    return _has_no_holder(case, index) or was_absent(case, index)


def was_absent(case: Case, index: int) -> bool:
    """Whether its holder had no ``alive`` for so long that its own fence has fallen."""
    absence = case.memory.absence(index)
    return absence is not None and case.clocks.now - absence.since >= case.rules.longest_absence


def _has_no_holder(case: Case, index: int) -> bool:
    place = case.rules.own.place
    member = case.view.members.get(index)
    if member is not None:
        # Where we run, nothing of an earlier process is left: that was looked for first.
        return member.has_left or member.place == place
    if index in case.view.alive or case.about.again:
        return False  # after a loss of data the roster does not show everybody
    seat = case.roster[index] if index < len(case.roster) else None
    return seat is None or seat.place == place


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
    compares = case.view.unchanged(records.EPOCH_KEY, server, alive, *marks)
    then = (own_record_left(case), *deletes(alive, *marks))
    return RecordChange(compares, then, why=f"move to index {given}")


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
    is_alive = case.view.alive.get(case.index) == case.rules.own.incarnation
    if case.member == case.own_record(case.job) and is_alive:
        return None
    puts = [*_own_puts(case, case.index)]
    names = [records.EPOCH_KEY, *case.own_key_names()]
    if (mark := own_done(case)) is not None:
        done = records.done_key(case.epoch.generation, case.index)
        names.append(done)
        puts.append(put(done, mark, case.job))
    return RecordChange(case.view.unchanged(*names), tuple(puts), why="our keys were gone")


def own_done(case: Case) -> PhaseMark | None:
    """What our ``done`` holds, once all our ranks of the running generation have ended with 0."""
    situation = case.situation
    if not case.in_roster or situation.ranks is not Ranks.SUCCEEDED:
        return None
    if case.running is None or situation.generation != case.running:
        return None
    return PhaseMark(case.rules.own.incarnation, situation.table or "")


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
    return Exit(USAGE, _apart(ours.split(), theirs.split()))


def _apart(ours: list[str], theirs: list[str]) -> str:
    """What differs between two lists of settings."""
    here, there = (
        [one for one in ours if one not in theirs],
        [one for one in theirs if one not in ours],
    )
    if all(word.startswith(VERSION) for word in (*here, *there)):
        own, its = (" ".join(words).removeprefix(VERSION) or "another" for words in (here, there))
        return (
            f"this server has version {own} of ascend-supervisor, and the job has {its}; all "
            "servers of so many must have the same: install it on all"
        )
    return (
        f"this server was started with {' '.join(here)}, and the job with {' '.join(there)}; start "
        "all its servers with the same settings and command, and give another job another name "
        "(--peers-job)"
    )


def take_index(case: Case) -> Act | None:
    """Take a free index."""
    if case.gathering is None or case.index is not None or case.situation.leftovers:
        return None
    free = [index for index in free_indices(case) if not is_for_others(case, index)]
    if not free:
        return None
    index = free[int(case.clocks.fraction * len(free))]
    puts, marks = _own_puts(case, index), case.view.marks_of(index)
    names = (records.EPOCH_KEY, *(one.key for one in puts), *marks)
    own = case.rules.own
    came = records.newcomer_key(own.index, own.incarnation)
    offer = records.spare_key(own.incarnation)
    gone = (*marks, came, offer) if offer in case.view.values else (*marks, came)
    then = (*puts, *deletes(*gone))
    return RecordChange(case.view.unchanged(*names), then, why=f"take index {index}")


def _own_puts(case: Case, index: int) -> tuple[Put, ...]:
    """Our keys as a member of the job with this index."""
    own = case.own_record(case.job)
    return (
        put(records.server_key(index), own, case.job),
        put(records.alive_key(index), Beat(own.incarnation), own.incarnation),
    )


def own_record_left(case: Case) -> Put:
    """Our record says that we have left."""
    gone = replace(case.own_record(case.job), has_left=True)
    return put(case.own_key_names()[0], gone, case.job)


def farewell(case: Case) -> Act | None:
    """Say that we leave; somebody must stay who sees it, else it is the end of the job."""
    index, others = case.index, case.others_living
    assert index is not None  # noqa: S101
    if not others:
        return _last_one_leaves(case)
    server, alive = case.own_key_names()
    ready = records.ready_key(case.epoch.generation, index)
    return RecordChange(
        case.view.unchanged(records.EPOCH_KEY, server, alive, records.alive_key(others[0])),
        (own_record_left(case), *deletes(alive, ready)),
        why="we leave",
        afterwards=Exit(_stop_code(case), "told to stop; the other servers know"),
    )


def farewell_with_done(case: Case) -> Act | None:
    """Leave with our ``done`` in place; somebody must stay who counts it."""
    others = case.others_living
    if not others:
        return _last_one_leaves(case)
    alive = case.own_key_names()[1]
    compares = case.view.unchanged(records.EPOCH_KEY, alive, records.alive_key(others[0]))
    left = Exit(_stop_code(case), "told to stop; our ranks had ended with 0")
    return RecordChange(compares, deletes(alive), why="we leave, done", afterwards=left)


def _last_one_leaves(case: Case) -> Act | None:
    """The end of the job, unless somebody who was only away has come back meanwhile."""
    if case.is_cautious or case.index is None or case.view.known is not None:
        return None  # who has not read of everybody reads that first
    missing = [records.alive_key((case.index + 1) % case.rules.servers)]
    if case.running is not None:
        undone = (index for index in range(len(case.roster)) if not case.has_done(index))
        missing += [records.done_key(case.running, index) for index in undone][:1]
    compares = case.view.unchanged(*missing)
    return the_end(case, _stop_code(case), None, compares, "all servers were told to stop")


def _stop_code(case: Case) -> int:
    stop = case.situation.stop
    return SIGNAL_BASE + (15 if stop is None else stop)


def ended_here(case: Case) -> Act | None:
    """The job has succeeded, and this place was done: it only missed the end."""
    if not _has_unknown_end(case) or case.epoch.exit_code:
        return None
    place = case.rules.own.place
    for index, seat in enumerate(case.roster):
        if seat.place == place and case.has_done(index):
            done = records.done_key(case.epoch.generation, index)
            told = RecordChange(
                case.view.unchanged(records.EPOCH_KEY, done),
                deletes(records.server_key(index), done),
                why="the end was read",  # so that the next start here takes part in the next job
            )
            why = "the job has succeeded, and so had this server before"
            return Exit(0, why, farewell=told)
    return None


def next_job(case: Case) -> Act | None:
    """Everybody of the job before has left, or cannot have ranks any more."""
    if not _has_unknown_end(case):
        return None
    all_gone = all(_is_gone(case, index) for index in range(case.rules.servers))
    return first_gathering(case) if all_gone else None


def _has_unknown_end(case: Case) -> bool:
    epoch = case.view.epoch
    return epoch is not None and epoch.phase is Phase.END and epoch.job not in case.memory.jobs


def _is_gone(case: Case, index: int) -> bool:
    if was_absent(case, index):
        return True
    member = case.view.members.get(index)
    return index not in case.view.alive and (member is None or member.has_left)
