"""The coordinator of a run."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING

from ascend_supervisor.cluster.cluster_source import Cluster
from ascend_supervisor.cluster.from_environment.frameworks import joins_others
from ascend_supervisor.cluster.servers_told import index_told
from ascend_supervisor.cluster.table_source import identity, table_source
from ascend_supervisor.coordination import Coordinator
from ascend_supervisor.coordination.alone import Alone
from ascend_supervisor.coordination.by_hand import WaitByHand
from ascend_supervisor.coordination.ledger import Ledger
from ascend_supervisor.events import Report
from ascend_supervisor.launchers.choice import meeting_here
from ascend_supervisor.restart_policy import Backoff, RestartBudget
from ascend_supervisor.settings.precedence import Settings
from ascend_supervisor.tasks.clock import Clock

if TYPE_CHECKING:
    from ascend_supervisor.coordination.peers.tables import Tables


def coordinator_of(
    settings: Settings,
    environ: Mapping[str, str],
    cluster: Cluster,
    state_file: PurePath,
    fence: Callable[[float], None],
    clock: Clock,
    report: Report,
    by_hand: WaitByHand,
) -> Coordinator:
    """``fence`` says when our ranks must be gone; ``by_hand`` ends a wait for a rank table."""
    if settings.peers:
        from ascend_supervisor.coordination.peers.coordinator import Peers  # noqa: PLC0415  (seldom)
        from ascend_supervisor.coordination.peers.meeting import meeting_of  # noqa: PLC0415

        meeting = meeting_of(settings, environ, _budget(settings), state_file)
        tables = _tables(settings, environ, cluster, clock, report)
        return Peers(meeting, tables, fence, clock, report)
    table = table_source(settings, environ, cluster, clock, report)
    whoami = identity(settings, environ, cluster)
    ledger = Ledger(_budget(settings), clock, random.random)
    joins = joins_others(settings.method, meeting_here(settings, environ))
    if not settings.follow_cluster:
        return Alone(table, whoami, ledger, joins_others=joins)
    from ascend_supervisor.coordination.following import looks_of, rules_of  # noqa: PLC0415
    from ascend_supervisor.coordination.platform import Platform  # noqa: PLC0415  (seldom needed)

    looks = looks_of(settings, environ, cluster, clock, report)
    rules = rules_of(settings, joins_others=joins)
    platform = Platform(table, looks, whoami, ledger, rules, clock, report)
    by_hand.ended_by(platform.use_table_as_it_is)
    return platform


def _tables(
    settings: Settings,
    environ: Mapping[str, str],
    cluster: Cluster,
    clock: Clock,
    report: Report,
) -> Tables:
    """Where the rank table of servers that agree comes from."""
    from ascend_supervisor.coordination.peers.own_address import own_address  # noqa: PLC0415
    from ascend_supervisor.coordination.peers.tables import MadeTable, WrittenTable  # noqa: PLC0415

    servers, index = settings.servers, settings.node_rank
    if servers is None:
        table = table_source(settings, environ, cluster, clock, report)
        return WrittenTable(table, identity(settings, environ, cluster))
    if index is None:
        index = index_told(environ, servers)
    address = partial(own_address, settings.server_id, environ, settings.peers or ())
    return MadeTable(index, servers, cluster.published, address)


def _budget(settings: Settings) -> RestartBudget:
    return RestartBudget(
        limit=settings.restarts,
        period=settings.restart_period,
        backoff=Backoff(settings.restart_delay, settings.restart_delay_max),
        min_uptime=settings.min_uptime,
        never=settings.no_restart_on,
    )
