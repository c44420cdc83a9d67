"""Restarts that were asked for (--restarts) and cannot happen on this server alone; pure."""

from __future__ import annotations

from msgspec.structs import replace

from ascend_supervisor.life import Bar, Start

OTHER_SERVERS = Bar(
    "other servers hold ranks of this job, and cannot be restarted from here, so the first failure "
    "ends this server",
    "with --follow-cluster the ranks restart when the cluster has replaced pods or reset NPUs; "
    "with --peers the servers restart together; else --restarts applies where one server holds all "
    "ranks",
)
OTHER_POD = Bar(
    "the ranks need a process in another pod, which cannot be restarted from here, so the first "
    "failure ends this server",
    "--restarts applies where all processes of the job run in one pod",
)

FOLLOWED = Bar(
    "other servers hold ranks of this job, and the cluster says when all of them start again",
    "a restart that the cluster asks for is not charged; --restarts applies where one server holds "
    "all ranks",
)


def without_restarts(
    start: Start, limit: int, *, joins_others: bool, elsewhere: Bar = OTHER_SERVERS
) -> Start:
    """``start``, with no restarts left, and why, unless all that it needs is on this server.

    ``limit`` is what was asked for: without any, there is nothing to explain. ``joins_others``:
    the ranks need a process in another pod. ``elsewhere`` is why, where other servers hold ranks.
    """
    if not limit or (start.holds_all_ranks and not joins_others):
        return start
    bar = OTHER_POD if start.holds_all_ranks else elsewhere
    return replace(start, restarts_left=0, bar=bar)
