"""The coordinator of a run."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import PurePath

from ascend_supervisor.cluster.cluster_source import Cluster
from ascend_supervisor.cluster.from_environment.frameworks import joins_others
from ascend_supervisor.cluster.table_source import identity, table_source
from ascend_supervisor.coordination import Coordinator
from ascend_supervisor.coordination.alone import Alone
from ascend_supervisor.coordination.for_operators import ForOperators
from ascend_supervisor.coordination.ledger import Ledger
from ascend_supervisor.events import Report
from ascend_supervisor.launchers.choice import meeting_here
from ascend_supervisor.restart_policy import Backoff, RestartBudget
from ascend_supervisor.settings.precedence import Settings
from ascend_supervisor.tasks.clock import Clock


def coordinator_of(
    settings: Settings,
    environ: Mapping[str, str],
    cluster: Cluster,
    state_file: PurePath,
    fence: Callable[[float], None],
    clock: Clock,
    report: Report,
    operators: ForOperators,
) -> Coordinator:
    """``fence`` says when our ranks must be gone; ``operators`` get what they may do and see."""
    table = table_source(settings, environ, cluster, clock, report)
    whoami = identity(settings, environ, cluster)
    if settings.peers:
        from ascend_supervisor.coordination.peers.coordinator import Peers  # noqa: PLC0415  (seldom)
        from ascend_supervisor.coordination.peers.meeting import meeting_of  # noqa: PLC0415

        meeting = meeting_of(settings, environ, _budget(settings), state_file)
        peers = Peers(meeting, table, whoami, fence, clock, report)
        operators.whole_job.told_by(peers.seen)
        return peers
    ledger = Ledger(_budget(settings), clock, random.random)
    joins = joins_others(settings.method, meeting_here(settings, environ))
    if not settings.follow_cluster:
        return Alone(table, whoami, ledger, joins_others=joins)
    from ascend_supervisor.coordination.following import looks_of, rules_of  # noqa: PLC0415
    from ascend_supervisor.coordination.platform import Platform  # noqa: PLC0415  (seldom needed)

    looks = looks_of(settings, environ, cluster, clock, report)
    rules = rules_of(settings, joins_others=joins)
    platform = Platform(table, looks, whoami, ledger, rules, clock, report)
    operators.wait.ended_by(platform.use_table_as_it_is)
    return platform


def _budget(settings: Settings) -> RestartBudget:
    return RestartBudget(
        limit=settings.restarts,
        period=settings.restart_period,
        backoff=Backoff(settings.restart_delay, settings.restart_delay_max),
        min_uptime=settings.min_uptime,
        never=settings.no_restart_on,
    )
