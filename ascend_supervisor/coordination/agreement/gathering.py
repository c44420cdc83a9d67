"""Lines for the phase ``gather``: everybody ends its ranks, gets ready, and counts."""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from ascend_supervisor.coordination.agreement import keys
from ascend_supervisor.coordination.agreement.absentees import did_not_come, host_of, named
from ascend_supervisor.coordination.agreement.acts import Act, Transaction
from ascend_supervisor.coordination.agreement.case import Case
from ascend_supervisor.coordination.agreement.contact import ending_ranks
from ascend_supervisor.coordination.agreement.membership import farewell
from ascend_supervisor.coordination.agreement.records import Cause, Mark, Phase, Seat
from ascend_supervisor.coordination.agreement.writing import new_epoch, put, the_end
from ascend_supervisor.errors import BAD_TABLE, TABLE_NOT_READY

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
    mark, name = case.view.ready.get(case.index), keys.ready(generation, case.index)
    if case.situation.table is not None or mark is None or not case.is_own(mark):
        return None
    compares = case.view.unchanged(keys.EPOCH, *case.own_key_names(), name)
    return Transaction("not ready any more", case.job, compares, deletes=(name,))


def get_ready(case: Case) -> Act | None:
    """Nothing of ours runs, and we have a table: say so, and take back what was said before."""
    generation, table = case.gathering, case.situation.table
    if generation is None or case.member is None or table is None or case.index is None:
        return None
    if case.situation.stop is not None:
        return None  # we only wait until our farewell may be written
    mark = Mark(case.rules.own.incarnation, table, case.situation.retry_time)
    if case.view.ready.get(case.index) == mark:
        return None
    name = keys.ready(generation, case.index)
    older = tuple(one for one in case.view.marks_of(case.index) if one != name)
    compares = case.view.unchanged(keys.EPOCH, *case.own_key_names(), name, *older)
    return Transaction(f"ready for {generation}", case.job, compares, (put(name, mark),), older)


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
    about = replace(case.about, roster=roster, again=False, cause=None, answered=answered)
    epoch = replace(case.epoch, phase=Phase.RUN)
    marks = (keys.ready(epoch.generation, index) for index in range(min(servers, MOST_COMPARED)))
    why = f"all {servers} servers are ready"
    return new_epoch(case, why, epoch, about, view.unchanged(*marks))


def give_up(case: Case) -> Act | None:
    """Whoever is missing does not come."""
    since = case.memory.only_ready
    if case.gathering is None or case.member is None or since is None:
        return None
    if case.clocks.now - since < case.rules.timeout:
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
