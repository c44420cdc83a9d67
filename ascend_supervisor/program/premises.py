"""What is known before a job begins, and the same in all of its generations; where its files go."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.cluster.cluster_source import Cluster, ClusterOptions, cluster_of
from ascend_supervisor.cluster.declared import Meeting, Scheduler
from ascend_supervisor.cluster.own_devices import npu_files
from ascend_supervisor.cluster.platforms import joins_others, meeting_of
from ascend_supervisor.errors import CannotWrite
from ascend_supervisor.events.supervisor import ClusterSource
from ascend_supervisor.files.directories import can_be_made
from ascend_supervisor.files.regular_file import reason_of, refuse_to_replace
from ascend_supervisor.job_files import CACHE, Place, mounted_log_dir, place_of
from ascend_supervisor.launchers import Boot, Launcher
from ascend_supervisor.launchers.choice import launcher_of
from ascend_supervisor.outcome import Patience
from ascend_supervisor.probes.silence import Limits
from ascend_supervisor.process_spec import changed
from ascend_supervisor.program.alerts import check_event_program, check_program, targets_of
from ascend_supervisor.program.cpu_binding import topology_here
from ascend_supervisor.program.cpu_topology import Topology
from ascend_supervisor.settings.alert_options import EventProgram
from ascend_supervisor.settings.command_words import script_of
from ascend_supervisor.settings.precedence import Settings
from ascend_supervisor.settings.readers import Method, RankDir
from ascend_supervisor.tasks.threads import ANSWER_SECONDS, Call
from ascend_supervisor.untrusted_text import plain

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
    cluster = cluster_of(options, environ, npu_files(DEVICES), needs_file)
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
        topology=None
        if settings.bind_cpus == "none"
        else topology_here(npu_files(DEVICES), environ),
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
        script=script_of(settings.command),
    )
    return launcher_of(method, boot, settings.rank_table_timeout or None)


def rank_dir_here(
    said: RankDir | None,
    source: ClusterSource,
    method: Method,
    meeting: Meeting | None,
    *,
    has_work_dir: bool,
) -> RankDir:
    """Where ranks start: as the user says, else by where the cluster comes from.

    Programs that were written for one machine, for pods without a platform, or for PyTorch and
    TensorFlow pods, share relative paths. MindSpore writes graph files into its directory. A
    ``--work-dir`` asks for separate directories.
    """
    if said is not None:
        return said
    is_mindspore = isinstance(meeting, Scheduler) or method in {"mindspore", "msrun"}
    is_plain = source in {"operator", "kubeflow", "servers"} and not is_mindspore
    is_shared = source == "standalone" or is_plain
    return "same" if is_shared and not has_work_dir else "device"


def place_here(settings: Settings, environ: Mapping[str, str]) -> Place:
    """Where the files go; raises CannotWrite for a directory that is none, or that cannot be made.

    And for a state file that is no file: replaced, a device would be lost to the whole machine.
    """
    _check_directory("--log-dir", settings.log_dir, _file_in, _read_only)
    _check_state_file(settings.state_file)
    _check_directory("--work-dir", settings.work_dir, _file_in)  # what is below it may be writable
    mounted = mounted_log_dir(environ)
    usual = mounted is None and settings.work_dir is None
    place = place_of(
        environ,
        socket.gethostname(),
        mounted_log_exists=mounted is not None and _presumably(Path(mounted).is_dir),
        here=_here(),
        cache=CACHE if usual and _presumably(partial(can_be_made, Path(CACHE))) else None,
        log_dir=settings.log_dir,
        work_dir=settings.work_dir,
        state_file=settings.state_file,
    )
    return replace(place, event_log=settings.event_log)


def _here() -> Path:
    """The directory that we were started in; raises CannotWrite where it has been deleted."""
    try:
        return Path.cwd()
    except OSError as error:
        raise CannotWrite(
            f"the working directory of the supervisor is gone: {error.strerror}; start it in a "
            "directory that exists"
        ) from error


FindFault = Callable[[Path], str | None]
"""What is wrong with a directory, as the end of a sentence; None: nothing."""


def _check_directory(option: str, directory: Path | None, *faults: FindFault) -> None:
    """Raise CannotWrite for the first of ``faults`` that it has.

    Everything that is written below it would fail later, each with an error of its own.
    """
    if directory is None:
        return

    def found() -> str | None:
        return next(filter(None, (fault(directory) for fault in faults)), None)

    if fault := Call(found).within(ANSWER_SECONDS, otherwise=None):
        raise CannotWrite(
            f"{option} {plain(str(directory))}: expected a directory, found that {fault}; name "
            f"another one with {option}"
        )


def _check_state_file(path: Path | None) -> None:
    if path is None:
        return

    def found() -> str | None:
        if above := _file_in(path.parent):
            return above
        try:
            refuse_to_replace(path)
        except OSError as error:
            return reason_of(error)
        return None

    if fault := Call(found).within(ANSWER_SECONDS, otherwise=None):
        raise CannotWrite(
            f"--state-file {plain(str(path))}: expected a regular file, or none yet, found that "
            f"{fault}; name another one with --state-file"
        )


def _file_in(directory: Path) -> str | None:
    for path in (directory, *directory.parents):
        if os.path.exists(path) and not os.path.isdir(path):  # noqa: PTH110, PTH112  (never raise)
            return f"{plain(str(path))} is not one"
    return None


def _read_only(directory: Path) -> str | None:
    if can_be_made(directory):
        return None
    nearest = next(path for path in (directory, *directory.parents) if os.path.lexists(path))
    is_read_only = os.statvfs(nearest).f_flag & os.ST_RDONLY
    reason = os.strerror(errno.EROFS if is_read_only else errno.EACCES)
    return f"user {os.geteuid()} can neither write to it nor make it: {reason}"


def _presumably(holds: Callable[[], bool]) -> bool:
    """The answer of ``holds``; True if the file system does not answer in time."""
    return Call(holds).within(ANSWER_SECONDS, otherwise=True)
