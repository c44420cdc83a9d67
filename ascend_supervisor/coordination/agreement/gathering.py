"""Lines for the phase ``gather``: everybody ends its ranks, gets ready, and counts.

What a server waits for, and who is missing, is told in half sentences for operators.
"""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from ascend_supervisor.coordination.agreement import records
from ascend_supervisor.coordination.agreement.acts import Act, RecordChange
from ascend_supervisor.coordination.agreement.case import Case
from ascend_supervisor.coordination.agreement.contact import ending_ranks
from ascend_supervisor.coordination.agreement.failing import kept, own_failures
from ascend_supervisor.coordination.agreement.membership import farewell
from ascend_supervisor.coordination.agreement.records import Cause, Phase, PhaseMark, Seat
from ascend_supervisor.coordination.agreement.writing import deletes, new_epoch, put, the_end
from ascend_supervisor.errors import BAD_TABLE, TABLE_NOT_READY
from ascend_supervisor.phrases import listed

NOT_ALL_READY = "not all of them are ready"


def not_all_ready(case: Case) -> str:
    """Why no generation starts."""
    strangers = _never_seen(case)
    return f"{NOT_ALL_READY}: {strangers}" if strangers else NOT_ALL_READY


def did_not_come(case: Case) -> str:
    """Why the job ends before its first generation."""
    within = f"within --peers-timeout ({case.rules.timeout:g} s)"
    if strangers := _never_seen(case):
        return f"not all servers were ready {within}: {strangers}"
    missing = sorted(set(range(case.rules.servers)) - set(case.view.prepared))
    names = [named(index, host_of(case, index)) for index in missing]
    return f"not ready {within}: {listed(names)}"


def _never_seen(case: Case) -> str:
    """Who never came may wait for us at another etcd, or under another name; empty: all came."""
    members, servers = case.view.members, case.rules.servers
    if case.view.known is not None:
        return ""
    never = [named(index) for index in range(servers) if index not in members]
    if not never:
        return ""
    known = [named(index, one.shown) for index, one in sorted(members.items())]
    return (
        f"this etcd knows {listed(known)}, but has never seen {listed(never)}, which may not "
        "have started, or may have another etcd (--peers) or another name of the job (--peers-job)"
    )


def host_of(case: Case, index: int) -> str:
    """What names the latest process with this index to people; empty if none was seen."""
    member = case.view.members.get(index)
    return member.shown if member is not None else ""


def named(index: int, host: str = "") -> str:
    """The server, with what names it to people, if that is known."""
    return f"server {index} ({host})" if host else f"server {index}"


MOST_COMPARED = 100
"""So many servers cannot take back that they are ready while ``run`` is written: etcd takes 128
compares."""
MOST_ANSWERED = 16
"""Servers see a RetryTime late, but not that many of them."""


def end_ranks(case: Case) -> Act | None:
    """Another generation follows ours."""
    if case.gathering is None or not case.has_ranks:
        return None
    cause = case.about.cause
    return ending_ranks(case, cause.reason if cause else "the servers gather again")


def cannot_go_on(case: Case) -> Act | None:
    """Something here makes another generation impossible."""
    obstacle = case.situation.obstacle
    if case.gathering is None or case.member is None or obstacle is None:
        return None
    assert case.index is not None  # noqa: S101
    return the_end(case, obstacle.exit_code, Cause(case.index, obstacle.exit_code, obstacle.reason))


def leave(case: Case) -> Act | None:
    if case.gathering is None or case.member is None or case.situation.stop is None:
        return None
    return farewell(case)


def take_back(case: Case) -> Act | None:
    """Something forbids a start here again: we are not ready any more."""
    generation = case.gathering
    if generation is None or case.member is None or case.index is None:
        return None
    mark, name = case.view.ready.get(case.index), records.ready_key(generation, case.index)
    if case.situation.table is not None or mark is None or not case.is_own(mark):
        return None
    compares = case.view.unchanged(records.EPOCH_KEY, *case.own_key_names(), name)
    return RecordChange(compares, deletes(name), why="not ready any more")


def get_ready(case: Case) -> Act | None:
    """Nothing of ours runs, and we have a table: say so, and take back what was said before."""
    generation, table = case.gathering, case.situation.table
    if generation is None or case.member is None or table is None or case.index is None:
        return None
    if case.situation.stop is not None:
        return None  # we only wait until our farewell may be written
    mark = PhaseMark(case.rules.own.incarnation, table, case.situation.retry_time)
    if case.view.ready.get(case.index) == mark:
        return None
    name = records.ready_key(generation, case.index)
    older = tuple(one for one in case.view.marks_of(case.index) if one != name)
    compares = case.view.unchanged(records.EPOCH_KEY, *case.own_key_names(), name, *older)
    last = case.memory.started
    if last not in {None, generation} and case.view.known is not None:  # they were not read
        before = (key(last, case.index) for key in (records.ready_key, records.done_key))
        older = tuple(dict.fromkeys((*older, *before)))
    then = (put(name, mark, case.job), *deletes(*older))
    return RecordChange(compares, then, why=f"ready for {generation}")


def run(case: Case) -> Act | None:
    """All are ready, with the same table: the roster is fixed, and everybody starts."""
    view, servers = case.view, case.rules.servers
    if case.gathering is None or case.index is None:
        return None
    if len(view.prepared) != servers or tables_differ(case) or case.about.pending is not None:
        return None
    if case.clocks.now < case.memory.phase_seen + case.about.delay:
        return None
    members = [view.members[index] for index in range(servers)]
    roster = tuple(Seat(one.incarnation, one.place, one.addresses, one.devices) for one in members)
    seen = {view.ready[index].retry_time for index in range(servers)} - {None}
    answered = tuple(sorted(one for one in seen if one is not None))[-MOST_ANSWERED:]
    about = replace(
        case.about,
        roster=roster,
        again=False,
        cause=None,
        answered=answered,
        failures=kept(case),
    )
    epoch = replace(case.epoch, phase=Phase.RUN)
    marks = (
        records.ready_key(epoch.generation, index) for index in range(min(servers, MOST_COMPARED))
    )
    why = f"all {servers} servers are ready"
    return new_epoch(case, why, epoch, about, view.unchanged(*marks))


def give_up(case: Case) -> Act | None:
    """Whoever is missing does not come."""
    since = case.memory.only_ready
    if case.gathering is None or case.member is None or since is None:
        return None
    if case.clocks.now - since < case.rules.timeout or case.view.known is not None:
        return None
    if tables_differ(case):
        return the_end(case, BAD_TABLE, _differing_tables(case))
    cause = case.about.cause
    if cause is None:
        return the_end(case, TABLE_NOT_READY, None, why=did_not_come(case))
    missing = tuple(sorted(set(range(case.rules.servers)) - set(case.view.prepared)))
    hosts = tuple(host_of(case, index) for index in missing)
    cause = replace(cause, also_lost=missing, hosts_lost=hosts)
    return the_end(case, cause.exit_code, cause)


def tables_differ(case: Case) -> bool:
    """Whether servers that are ready have other tables than others."""
    return len({case.view.ready[index].digest for index in case.view.prepared}) > 1


def _differing_tables(case: Case) -> Cause:
    """The cause is on a server whose table fewest others have; the last one, if that is a tie."""
    digests = {index: case.view.ready[index].digest for index in sorted(case.view.prepared)}
    shared = Counter(digests.values())
    apart = min(digests, key=lambda index: (shared[digests[index]], -index))
    other = next(index for index in digests if digests[index] != digests[apart])
    told = ", ".join(
        f"{named(one, host_of(case, one))} has {digests[one]}" for one in sorted((apart, other))
    )
    return Cause(apart, BAD_TABLE, f"the rank tables differ: {told}")


def reason(case: Case) -> str:
    """Why there is nothing to do at present."""
    if damaged := case.view.damaged_epoch:
        return f"{damaged}; a server that knows the job puts it again"
    if case.view.epoch is None:
        return f"etcd does not know the job yet; it begins after {case.rules.ttl:g} s"
    if case.index is None:
        return _without_index(case)
    if case.gathering is None:
        return "their ranks have not all ended with 0" if case.running is not None else "the end"
    return _gathering(case)


def _gathering(case: Case) -> str:
    view, memory, now = case.view, case.memory, case.clocks.now
    if case.has_ranks:
        return "the ranks here have not ended"
    if case.index not in view.prepared:
        return "this server is not ready"
    if len(view.prepared) < case.rules.servers:
        return not_all_ready(case)
    if tables_differ(case):
        return "all are ready, but their rank tables differ"
    left = memory.phase_seen + case.about.delay - now
    if left > 0:
        return f"all are ready; the restart is delayed for {case.about.delay:g} s"
    if case.about.pending is not None:
        return f"all are ready; the cluster may act within {case.rules.verdict:g} s"
    return "all are ready, and start"


def _without_index(case: Case) -> str:
    given = case.rules.own.index
    if given is None:
        return _of_spare(case)
    holder = case.view.members.get(given)
    if holder is None:
        return "no place is free"
    where = holder.shown or f"the place {holder.place}"
    held = f"the place of server {given} is held by another supervisor, on {where}"
    return f"{held}, which is lost; {_free_after(case)}" if given in _away(case) else held


def _of_spare(case: Case) -> str:
    servers, away = case.rules.servers, _away(case)
    if own_failures(case):
        return "this server has failed first too often: it takes a place only if nobody else does"
    if len(case.view.living) == servers:
        return (
            f"this is a spare: {servers} servers run; this one takes the place of one that is lost"
        )
    if not away or case.view.epoch is None or case.view.epoch.phase is Phase.END:
        return "no place is free"
    members = case.view.members
    lost = ", ".join(named(index, members[index].shown) for index in away)
    return f"this is a spare; lost: {lost}; {_free_after(case)}"


def _away(case: Case) -> tuple[int, ...]:
    """The members whose ``alive`` is gone, but not because they have finished."""
    living, done = case.view.living, case.view.done
    return tuple(
        index
        for index, member in sorted(case.view.members.items())
        if index not in living and index not in done and not member.has_left
    )


def _free_after(case: Case) -> str:
    return f"a place is free after an absence of {case.rules.longest_absence:g} s"
