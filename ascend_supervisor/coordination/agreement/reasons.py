"""What a server waits for, in the words of an operator; half sentences."""

from __future__ import annotations

from ascend_supervisor.coordination.agreement.case import Case
from ascend_supervisor.coordination.agreement.gathering import tables_differ


def reason(case: Case) -> str:
    """Why there is nothing to do at present."""
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
        return "not all of them are ready"
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
    holder = case.view.members.get(given) if given is not None else None
    if given is None and len(case.view.living) == case.rules.servers:
        return (
            f"this is a spare: {case.rules.servers} servers run; this one takes the place of one "
            "that is lost"
        )
    if holder is None:
        return "no place is free"
    where = holder.host or ", ".join(holder.addresses) or f"the place {holder.place}"
    return f"the place of server {given} is held by another supervisor, on {where}"
