"""The coordinator of a run."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.cluster.cluster_source import Cluster, identity, table_source
from ascend_supervisor.cluster.from_environment.choice import index_told
from ascend_supervisor.cluster.from_environment.frameworks import joins_others
from ascend_supervisor.cluster.identity import Identity
from ascend_supervisor.cluster.rank_table import FoundTable
from ascend_supervisor.coordination import Coordinator
from ascend_supervisor.coordination.alone import Alone, Ledger
from ascend_supervisor.coordination.for_operators import ForOperators
from ascend_supervisor.coordination.own_etcd.process import Surroundings
from ascend_supervisor.events import Report
from ascend_supervisor.launchers.choice import meeting_here
from ascend_supervisor.restart_policy import Backoff, RestartBudget
from ascend_supervisor.settings.peers_options import OwnEtcd
from ascend_supervisor.settings.precedence import Settings
from ascend_supervisor.tasks.clock import Clock

if TYPE_CHECKING:
    from ascend_supervisor.coordination.followed_cluster.cluster_files import FileLook
    from ascend_supervisor.coordination.followed_cluster.incident import FollowRules
    from ascend_supervisor.coordination.peers.tables import Tables


def coordinator_of(
    settings: Settings,
    environ: Mapping[str, str],
    cluster: Cluster,
    state_file: PurePath,
    machine: Surroundings,
    clock: Clock,
    report: Report,
    operators: ForOperators,
) -> Coordinator:
    """``operators`` get what they may do and see.

    The guardian of ``machine`` is told when our ranks must be gone, and the etcd of ``--peers
    first`` runs there.
    """
    run = _Run(settings, environ, cluster, clock, report)
    if settings.peers:
        return _peers(run, state_file, machine, operators)
    if settings.follow_cluster:
        return _platform(run, operators)
    return Alone(run.table, run.identity, run.ledger, joins_others=run.joins_others)


class _Run(Struct, frozen=True):
    """What every coordinator is made of."""

    settings: Settings
    environ: Mapping[str, str]
    cluster: Cluster
    clock: Clock
    report: Report

    @property
    def table(self) -> Callable[[], Awaitable[FoundTable]]:
        return table_source(self.settings, self.environ, self.cluster, self.clock, self.report)

    @property
    def identity(self) -> Identity:
        return identity(self.settings, self.environ, self.cluster)

    @property
    def ledger(self) -> Ledger:
        return Ledger(_budget(self.settings), self.clock, random.random)

    @property
    def joins_others(self) -> bool:
        return joins_others(self.settings.method, meeting_here(self.settings, self.environ))

    def followed(self) -> tuple[tuple[FileLook, ...], FollowRules]:
        from ascend_supervisor.coordination.followed_cluster.from_settings import looks_of, rules_of  # noqa: PLC0415

        looks = looks_of(self.settings, self.environ, self.cluster, self.clock, self.report)
        return looks, rules_of(self.settings, joins_others=self.joins_others)


def _platform(run: _Run, operators: ForOperators) -> Coordinator:
    from ascend_supervisor.coordination.followed_cluster.coordinator import FollowedCluster  # noqa: PLC0415  (seldom needed)

    looks, rules = run.followed()
    made = FollowedCluster(run.table, looks, run.identity, run.ledger, rules, run.clock, run.report)
    operators.wait.ended_by(made.use_table_as_it_is)
    return made


def _peers(
    run: _Run, state_file: PurePath, machine: Surroundings, operators: ForOperators
) -> Coordinator:
    from ascend_supervisor.coordination.peers.coordinator import Peers  # noqa: PLC0415  (seldom)
    from ascend_supervisor.coordination.peers.meeting import meeting_of  # noqa: PLC0415

    settings, clock, report = run.settings, run.clock, run.report
    meeting = meeting_of(settings, run.environ, _budget(settings), state_file)
    fence, table = machine.guardian.fence, run.table
    if settings.peers is OwnEtcd.FIRST:
        from ascend_supervisor.coordination.own_etcd.first_server import (  # noqa: PLC0415  (seldom)
            first_server_of,
            table_with_etcd,
        )

        first = first_server_of(settings, meeting, machine)
        meeting = replace(meeting, etcd=first.etcd)
        table = table_with_etcd(table, run.identity, settings, run.environ, first)
    from ascend_supervisor.coordination.peers.tables import WrittenTable  # noqa: PLC0415

    if not settings.follow_cluster:
        tables = _made(run) if settings.servers else WrittenTable(table, run.identity)
        alone = Peers(meeting, tables, fence, clock, report)
        operators.whole_job.told_by(alone.seen)
        return alone
    from ascend_supervisor.coordination.peers.in_cluster import PeersInCluster  # noqa: PLC0415

    of_any_size = replace(run.identity, size=None)  # a later table may have another one

    def peers(table: Callable[[], Awaitable[FoundTable]]) -> Peers:
        tables = WrittenTable(table, of_any_size, may_move=meeting.may_move)
        return Peers(meeting, tables, fence, clock, report)

    looks, rules = run.followed()
    made = PeersInCluster(peers, run.table, looks, run.identity, rules, clock, report)
    operators.wait.ended_by(made.use_table_as_it_is)
    operators.whole_job.told_by(made.seen)
    return made


def _made(run: _Run) -> Tables:
    """The table that the servers make."""
    from ascend_supervisor.coordination.peers.own_address import own_address  # noqa: PLC0415
    from ascend_supervisor.coordination.peers.tables import MadeTable  # noqa: PLC0415

    settings, index = run.settings, run.settings.node_rank
    servers, etcd = settings.servers or 1, settings.peers
    if index is None:
        index = index_told(run.environ, servers, settings.pod_name)
    urls = etcd if isinstance(etcd, tuple) else ()
    address = partial(own_address, settings.server_id, run.environ, urls)
    return MadeTable(index, servers, run.cluster.published, address)


def _budget(settings: Settings) -> RestartBudget:
    return RestartBudget(
        limit=settings.restarts,
        period=settings.restart_period,
        backoff=Backoff(settings.restart_delay, settings.restart_delay_max),
        min_uptime=settings.min_uptime,
        never=settings.no_restart_on,
    )
