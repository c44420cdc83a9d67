"""The rank table of this run, and which entry is ours."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from ascend_supervisor.cluster.cluster_source import Cluster
from ascend_supervisor.cluster.from_environment import operator
from ascend_supervisor.cluster.from_environment.model_arts import servers_told
from ascend_supervisor.cluster.from_environment.volcano import own_task
from ascend_supervisor.cluster.identity import Identity, doubts, identity_of
from ascend_supervisor.cluster.no_table import other_sources
from ascend_supervisor.cluster.rank_table import FoundTable, RankTable
from ascend_supervisor.cluster.table_file import naming_variable, table_places
from ascend_supervisor.cluster.wait_for_table import TableFile
from ascend_supervisor.events import Report
from ascend_supervisor.settings.precedence import Settings
from ascend_supervisor.tasks.clock import Clock, MonotonicClock


def identity(settings: Settings, environ: Mapping[str, str], cluster: Cluster) -> Identity:
    """What tells our entry; a cluster that says our node rank needs no other names."""
    if cluster.node_rank is not None:
        return Identity(node_rank=cluster.node_rank)
    return identity_of(
        own_task(settings.method, environ),
        settings.pod_name,
        settings.server_id,
        settings.node_rank,
        under_mpirun=settings.method == "mpirun",
        size=cluster.size,
        number=operator.node_rank_told(environ),
        first_rank=operator.first_rank_told(environ),
    )


def table_source(
    settings: Settings,
    environ: Mapping[str, str],
    cluster: Cluster,
    clock: Clock,
    report: Report,
) -> Callable[[], Awaitable[FoundTable]]:
    """A function that waits for the rank table."""
    given = cluster.given
    if given is None:
        file = table_file(settings, environ, cluster, clock, report)
        return partial(file.wait, settings.rank_table_timeout or None)

    async def at_once() -> FoundTable:
        return given

    return at_once


async def table_now(settings: Settings, environ: Mapping[str, str], cluster: Cluster) -> FoundTable:
    """The table as it stands, without waiting; raises a Refusal."""
    if cluster.given is not None:
        return cluster.given
    return await table_file(settings, environ, cluster, MonotonicClock(), lambda _: None).now()


def table_file(
    settings: Settings,
    environ: Mapping[str, str],
    cluster: Cluster,
    clock: Clock,
    report: Report,
) -> TableFile:
    """The file in which the table is, or will be."""
    explicit = None if settings.rank_table is None else str(settings.rank_table)
    others = other_sources(environ, cluster.hint, is_named=explicit is not None)
    whoami = identity(settings, environ, cluster)

    def warnings(table: RankTable) -> tuple[str, ...]:
        return (*doubts(table, whoami), *_alone(table, environ))

    places = table_places(explicit, environ)
    npus = 0 if explicit or naming_variable(environ) or settings.follow_cluster else cluster.npus
    return TableFile(places, clock, report, others, warnings, npus)


def _alone(table: RankTable, environ: Mapping[str, str]) -> tuple[str, ...]:
    """A warning if the table has this machine alone, and the platform names more."""
    if len(table.entries) != 1:
        return ()
    return tuple(
        f"the table has a single entry, but {told}: each of these servers would train alone"
        for told, servers in servers_told(environ)
        if servers > 1
    )
