"""Where the cluster comes from: an option, a rank table, or variables; decided once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct

from ascend_supervisor.cluster import ascend_operator
from ascend_supervisor.cluster.ascend_operator import check_leader, is_scheduler_alone
from ascend_supervisor.cluster.identity import Identity, JobSize, doubts, identity_of
from ascend_supervisor.cluster.made_table import DECLARED, ServerDevice, found_in, standalone_table
from ascend_supervisor.cluster.model_arts import servers_told
from ascend_supervisor.cluster.own_devices import THIS_MACHINE, Machine, own_devices
from ascend_supervisor.cluster.platforms import (
    Platform,
    check_alone,
    check_method,
    declared,
    node_rank_told,
    platform_of,
    pods_told,
    servers_table,
    told_by,
)
from ascend_supervisor.cluster.rank_table import FoundTable, RankTable
from ascend_supervisor.cluster.table_file import (
    naming_variable,
    other_sources,
    table_path,
    table_places,
)
from ascend_supervisor.cluster.volcano import own_task
from ascend_supervisor.cluster.wait_for_table import TableFile
from ascend_supervisor.errors import SettingsRefused, Unavailable
from ascend_supervisor.events import Report
from ascend_supervisor.events.supervisor import CLUSTER_WORDS, ClusterSource
from ascend_supervisor.settings.readers import Method
from ascend_supervisor.tasks.clock import Clock, MonotonicClock
from ascend_supervisor.tasks.threads import Call

TABLE_SECONDS = 10.0
"""How long the file systems may take to tell whether there is a rank table."""


class ClusterOptions(Struct, frozen=True):
    """What the options say of the cluster, and which method needs it; None: nothing.

    ``table`` is where the rank table is, or will be; ``table_timeout`` None waits for ever.
    ``standalone`` 0: as many devices as there are. ``is_followed``: the table may change.
    """

    method: Method
    table: Path | None = None
    table_timeout: float | None = None
    pod_name: str | None = None
    server_id: str | None = None
    node_rank: int | None = None
    standalone: int | None = None
    servers: int | None = None
    is_followed: bool = False


class Cluster(Struct, frozen=True):
    """Where the cluster comes from; ``given`` is its table, unless that is read from a file.

    ``node_rank`` is ours, if the source says it. ``hint`` says how to choose another source, where
    two could count; then ``size`` is what variables say of the job, and a file must agree.
    ``published`` are the devices of this server, where all servers make the table. ``npus`` are
    those of this machine, if nothing tells of others.
    """

    source: ClusterSource
    given: FoundTable | None = None
    node_rank: int | None = None
    hint: str | None = None
    size: JobSize | None = None
    published: tuple[ServerDevice, ...] = ()
    npus: int = 0


def cluster_of(
    options: ClusterOptions,
    environ: Mapping[str, str],
    devices: Sequence[str],
    needs_file: bool,
    machine: Machine = THIS_MACHINE,
) -> Cluster:
    """The cluster of this run; looks where a rank table may be, for a bounded time.

    ``devices`` are those of this machine. ``needs_file``: the method reads the file of the table.
    Raises a Refusal.
    """
    if options.servers is not None:
        return Cluster("servers", published=own_devices(devices, options.standalone, machine))
    if options.standalone is not None:
        check_alone(environ)
    if options.method == "once" and (options.table is None or is_scheduler_alone(environ)):
        return _needless(options, environ)
    if options.standalone is not None:
        return Cluster("standalone", standalone_table(options.standalone or len(devices) or 1))
    if is_scheduler_alone(environ):  # no table holds it
        return _declared("operator", options, environ, 0)
    check_leader(environ, len(devices))
    platform = None if options.table is not None else platform_of(environ)
    if platform is None or (platform == "modelarts" and needs_file):
        alone = all(pods < 2 for _, pods in pods_told(environ))  # noqa: PLR2004
        return Cluster("rank_table", npus=len(devices) if alone else 0)
    if platform == "modelarts":  # its variables and its table come together, and say the same
        return _declared(platform, options, environ, 0)
    return _table_or_variables(platform, options, environ, len(devices), needs_file)


def _table_or_variables(
    platform: Platform,
    options: ClusterOptions,
    environ: Mapping[str, str],
    devices: int,
    needs_file: bool,
) -> Cluster:
    """Variables count for methods that need no file, whether there is one or not.

    All pods must decide alike, and a file may come between the starts of two. Other methods read
    the file where one is or may still come.
    """
    places = table_places(None, environ)
    nowhere: Path | None = Path()
    path = Call(partial(table_path, places)).within(TABLE_SECONDS, nowhere)
    if path is nowhere and needs_file:
        raise Unavailable(
            f"cannot tell whether there is a rank table: the file system of {places[0]} has not "
            f"answered for {TABLE_SECONDS:g} s; name the table with --rank-table, or see why"
        )
    if path is not None and needs_file:
        hint = to_use_variables(platform, naming_variable(environ), path)
        return Cluster("rank_table", hint=hint, size=told_by(platform, environ))
    other = None if path in (None, nowhere) else f"to use the rank table, give --rank-table {path}"
    found = _declared(platform, options, environ, devices, other)
    if needs_file and options.method != "ranktable":
        raise SettingsRefused(_no_table(options.method))
    return found


def _needless(options: ClusterOptions, environ: Mapping[str, str]) -> Cluster:
    """The command is started once, whatever the cluster; only restarts depend on it."""
    told = {} if options.standalone is not None else environ
    ours = options.node_rank
    node_rank = node_rank_told(told, options.pod_name) if ours is None else ours
    return Cluster("none", found_in(DECLARED, servers_table(told, node_rank)), node_rank)


def _declared(
    platform: Platform,
    options: ClusterOptions,
    environ: Mapping[str, str],
    devices: int,
    hint: str | None = None,
) -> Cluster:
    told = own_task(options.method, environ)
    found = declared(platform, told, options.node_rank, devices, options.pod_name)
    check_method(options.method, found, environ)
    return Cluster(platform, found_in(DECLARED, found.table), found.node_rank, hint)


def _no_table(method: Method) -> str:
    return (
        f"--method {method} reads a rank table where MS_RANKTABLE_ENABLE is set, and none can come "
        "here; unset it, or mount the directory of the table"
    )


def to_use_variables(platform: Platform, named: str | None, path: Path) -> str:
    """How to make variables count where a table does; ``named``: the variable with its path."""
    way = f"do not mount {path}" if named is None else f"unset {named}"
    return f"to take the cluster from {CLUSTER_WORDS[platform]} instead, {way}"


def identity(options: ClusterOptions, environ: Mapping[str, str], cluster: Cluster) -> Identity:
    """What tells our entry; a cluster that says our node rank needs no other names."""
    if cluster.node_rank is not None:
        return Identity(node_rank=cluster.node_rank)
    return identity_of(
        own_task(options.method, environ),
        options.pod_name,
        options.server_id,
        options.node_rank,
        under_mpirun=options.method == "mpirun",
        size=cluster.size,
        number=ascend_operator.node_rank_told(environ),
        first_rank=ascend_operator.first_rank_told(environ),
    )


def table_source(
    options: ClusterOptions,
    environ: Mapping[str, str],
    cluster: Cluster,
    clock: Clock,
    report: Report,
) -> Callable[[], Awaitable[FoundTable]]:
    """A function that waits for the rank table."""
    given = cluster.given
    if given is None:
        file = table_file(options, environ, cluster, clock, report)
        return partial(file.wait, options.table_timeout)

    async def at_once() -> FoundTable:
        return given

    return at_once


async def table_now(
    options: ClusterOptions, environ: Mapping[str, str], cluster: Cluster
) -> FoundTable:
    """The table as it stands, without waiting; raises a Refusal."""
    if cluster.given is not None:
        return cluster.given
    return await table_file(options, environ, cluster, MonotonicClock(), lambda _: None).now()


def table_file(
    options: ClusterOptions,
    environ: Mapping[str, str],
    cluster: Cluster,
    clock: Clock,
    report: Report,
) -> TableFile:
    """The file in which the table is, or will be."""
    explicit = None if options.table is None else str(options.table)
    others = other_sources(environ, cluster.hint, is_named=explicit is not None)
    whoami = identity(options, environ, cluster)

    def warnings(table: RankTable) -> tuple[str, ...]:
        return (*doubts(table, whoami), *_alone(table, environ))

    places = table_places(explicit, environ)
    npus = 0 if explicit or naming_variable(environ) or options.is_followed else cluster.npus
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
