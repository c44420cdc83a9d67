"""What a server waits for, in the words of an operator; half sentences."""

from __future__ import annotations

from ascend_supervisor.coordination.agreement.absentees import named, not_all_ready
from ascend_supervisor.coordination.agreement.case import Case
from ascend_supervisor.coordination.agreement.gathering import tables_differ
from ascend_supervisor.coordination.agreement.records import Phase


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
