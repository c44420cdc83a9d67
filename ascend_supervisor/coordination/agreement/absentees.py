"""Who is not ready, and who was never seen at this etcd; half sentences; pure."""

from __future__ import annotations

from ascend_supervisor.coordination.agreement.case import Case

NOT_ALL_READY = "not all of them are ready"
MOST_NAMED = 8


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
    return f"not ready {within}: {_listed(names)}"


def _never_seen(case: Case) -> str:
    """Who never came may wait for us at another etcd, or under another name; empty: all came."""
    members, servers = case.view.members, case.rules.servers
    never = [named(index) for index in range(servers) if index not in members]
    if not never:
        return ""
    known = [named(index, one.shown) for index, one in sorted(members.items())]
    return (
        f"this etcd knows {_listed(known)}, but has never seen {_listed(never)}, which may not "
        "have started, or may have another etcd (--peers) or another name of the job (--peers-job)"
    )


def host_of(case: Case, index: int) -> str:
    """What names the latest process with this index to people; empty if none was seen."""
    member = case.view.members.get(index)
    return member.shown if member is not None else ""


def named(index: int, host: str = "") -> str:
    """The server, with what names it to people, if that is known."""
    return f"server {index} ({host})" if host else f"server {index}"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"{', '.join(names[:MOST_NAMED])}{more}"
