"""What is known before a job begins, and the same in all of its generations."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct

from ascend_supervisor.cluster.cluster_source import Cluster, ClusterOptions, cluster_of
from ascend_supervisor.cluster.from_environment.choice import meeting_of
from ascend_supervisor.cluster.from_environment.declared import Meeting
from ascend_supervisor.cluster.from_environment.frameworks import joins_others
from ascend_supervisor.cpus.topology import Topology
from ascend_supervisor.events.supervisor import ClusterSource
from ascend_supervisor.job_files import Place
from ascend_supervisor.launchers import Boot, Launcher
from ascend_supervisor.launchers.choice import launcher_of
from ascend_supervisor.launchers.common_parts import rank_dir_here
from ascend_supervisor.launchers.process_spec import changed
from ascend_supervisor.outcome import Patience
from ascend_supervisor.probes.devices import npus
from ascend_supervisor.probes.silence import Limits
from ascend_supervisor.program.alerts import check_event_program, check_program, targets_of
from ascend_supervisor.program.cpu_binding import topology_here
from ascend_supervisor.program.usable_directories import place_here
from ascend_supervisor.settings.alert_options import EventProgram
from ascend_supervisor.settings.precedence import Settings

if TYPE_CHECKING:
    from ascend_supervisor.alerts.webhooks import Targets

DEVICES = Path("/dev")
NOTHING: Mapping[str, str | None] = MappingProxyType({})


class Premises(Struct, frozen=True):
    """The settings, and what several parts ask of them.

    ``options`` is what they say of the cluster. ``meeting`` is where the ranks of the job meet, if
    the platform says it; ``joins_others``: they need a process in another pod. ``patience`` is with
    ranks that end, ``limits`` with those that hang. ``targets`` are those of --notify-url.
    ``topology`` is known with --bind-cpus.
    """

    settings: Settings
    environ: Mapping[str, str]
    place: Place
    options: ClusterOptions
    cluster: Cluster
    meeting: Meeting | None
    joins_others: bool
    patience: Patience
    limits: Limits
    targets: Targets | None = None
    topology: Topology | None = None

    def launcher(self, changes: Mapping[str, str | None]) -> Launcher:
        """That of ``--method``; ranks inherit the environment with the ``changes``."""
        settings, source = self.settings, self.cluster.source
        return launcher_here(settings, self.environ, self.meeting, changes, source)


def premises_of(settings: Settings, environ: Mapping[str, str]) -> Premises:
    """Looks where the cluster comes from, where files go, who is told; raises a Refusal."""
    options, meeting = cluster_options(settings), meeting_here(settings, environ)
    needs_file = launcher_here(settings, environ, meeting).needs_table_file
    cluster = cluster_of(options, environ, npus(DEVICES), needs_file)
    place = place_here(settings, environ)
    check_event_program(settings, place.started_in, environ)
    if isinstance(settings.server_check, EventProgram):
        check_program("--server-check", settings.server_check, place.started_in, environ)
    return Premises(
        settings=settings,
        environ=environ,
        place=place,
        options=options,
        cluster=cluster,
        meeting=meeting,
        joins_others=joins_others(settings.method, meeting),
        patience=Patience(drain=settings.drain, grace=settings.grace),
        limits=limits_of(settings),
        targets=targets_of(settings),
        topology=None if settings.bind_cpus == "none" else topology_here(npus(DEVICES), environ),
    )


def meeting_here(settings: Settings, environ: Mapping[str, str]) -> Meeting | None:
    """Where the ranks of the job meet, if the platform says it and this machine is in a cluster."""
    is_told = settings.standalone is None and settings.servers is None
    return meeting_of(environ) if is_told else None


def cluster_options(settings: Settings) -> ClusterOptions:
    """What the settings say of the cluster."""
    return ClusterOptions(
        method=settings.method,
        table=settings.rank_table,
        table_timeout=settings.rank_table_timeout or None,
        pod_name=settings.pod_name,
        server_id=settings.server_id,
        node_rank=settings.node_rank,
        standalone=settings.standalone,
        servers=settings.servers,
        is_followed=settings.follow_cluster,
    )


def limits_of(settings: Settings) -> Limits:
    """How long ranks may be silent."""
    return Limits(
        hang=None if settings.hang_timeout == "auto" else settings.hang_timeout,
        rank_hang=settings.rank_hang_timeout,
        watchdog=settings.watchdog,
        startup=settings.startup_timeout,
        learns_hang=settings.hang_timeout == "auto",
    )


def launcher_here(
    settings: Settings,
    environ: Mapping[str, str],
    meeting: Meeting | None,
    changes: Mapping[str, str | None] = NOTHING,
    source: ClusterSource = "rank_table",
) -> Launcher:
    """The launcher of ``--method``; ranks inherit ``environ`` with the ``changes``.

    What the platform says is read without them. ``source`` is where the cluster comes from; the
    need for a table file does not depend on it.
    """
    method, has_work_dir = settings.method, settings.work_dir is not None
    added = {variable.name for variable in settings.rank_env}
    added |= {name for name, value in changes.items() if value is not None}
    boot = Boot(
        settings.command,
        changed(environ, changes),
        settings.restarts,
        settings.master_port,
        rank_dir_here(settings.rank_dir, source, method, meeting, has_work_dir=has_work_dir),
        meeting,
        frozenset(added),
        ends_are_shared=bool(settings.peers),
    )
    return launcher_of(method, boot, settings.rank_table_timeout or None)
