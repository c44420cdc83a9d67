"""The parts of a run besides its job: reporters, logs, sockets, the owner of processes."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.control.chronicle import Chronicle
from ascend_supervisor.control.operations import Operations
from ascend_supervisor.control.protocol import socket_beside
from ascend_supervisor.control.server import ControlSocket
from ascend_supervisor.events import Report
from ascend_supervisor.files.reserved_descriptor import Reserve
from ascend_supervisor.files.watch import Removals
from ascend_supervisor.job_files import Place
from ascend_supervisor.launchers.rank_environment import rank_names
from ascend_supervisor.notify_socket.listener import Listener
from ascend_supervisor.notify_socket.senders import Senders
from ascend_supervisor.output.json_lines import Origin
from ascend_supervisor.output.log_file import Rotation
from ascend_supervisor.output.rank_logs import RankLogs
from ascend_supervisor.output.rank_output import Outputs
from ascend_supervisor.output.terminal import terminal_of
from ascend_supervisor.processes.children import Children
from ascend_supervisor.processes.kernel import (
    become_subreaper,
    free_memory,
    memory,
    parent_death_prefix,
    start_guardian,
)
from ascend_supervisor.processes.ownership import Mark, Ownership
from ascend_supervisor.program.alerts import alerts_of
from ascend_supervisor.program.earlier_start import EarlierStart
from ascend_supervisor.program.premises import Premises
from ascend_supervisor.program.single_instance import Holder
from ascend_supervisor.progress.record import TrainingRecord
from ascend_supervisor.reporters import fan_out
from ascend_supervisor.reporters.event_file import EventFile
from ascend_supervisor.reporters.state_file import Records, first_status
from ascend_supervisor.reporters.stdout import Outlets, StdoutFormat
from ascend_supervisor.settings.peers_options import without_secrets
from ascend_supervisor.settings.precedence import Settings
from ascend_supervisor.settings.user_variables import OWNER
from ascend_supervisor.stop_requests import Interrupts
from ascend_supervisor.tasks.clock import Clock, MonotonicClock
from ascend_supervisor.workers.runtime import Runtime
from ascend_supervisor.workers.standbys import Room, Standbys

if TYPE_CHECKING:
    from ascend_supervisor.alerts import Alerts
    from ascend_supervisor.metrics.registry import Outlet, Registry

GUARDIAN = Path(__file__).parents[1] / "programs" / "guardian.py"


class Parts(Struct, frozen=True):
    """``runtime`` is for processes, ``outlets`` to ``events`` and ``chronicle`` for events."""

    outlets: Outlets
    records: Records
    events: EventFile
    reserve: Reserve
    runtime: Runtime
    interrupts: Interrupts
    notify: Listener
    control: ControlSocket
    chronicle: Chronicle
    metrics: tuple[Registry, ...]
    alerts: tuple[Alerts, ...]


def parts_of(given: Premises, ourselves: Holder, earlier: EarlierStart) -> Parts:
    """Make them, in this order: each step depends on the one before it."""
    settings, environ, place = given.settings, given.environ, given.place
    prefix = parent_death_prefix()
    mark = Mark.ours(OWNER, str(place.state_file))
    guardian = start_guardian(GUARDIAN, mark)
    become_subreaper()
    ownership = Ownership.from_now_on(mark)
    origin = Origin(place.job_id, place.pod, os.getpid())
    outlets = _outlets(settings, environ, origin)
    children = Children(prefix, environ=environ, mark=mark)
    reserve = Reserve()  # only now: it may take the last descriptor
    clock = MonotonicClock()
    interval, began = settings.progress_interval, clock.elapsed()
    training = TrainingRecord(interval, began, earlier.account)
    status = first_status(place, ourselves.start_time, earlier.no_progress)
    chronicle = Chronicle(status, training, clock)
    removals, told = Removals(), settings.termination_log
    records = Records(place, chronicle.so_far, told, outlets, reserve, removals)
    events = EventFile(place.events, origin, outlets.report)
    metrics = _metrics(given, records, training, clock)
    # The chronicle comes first: it has the time.
    reports = [outlets.report, chronicle.report, records.report, events.report]
    reports += [one.report for one in metrics]
    report = fan_out(reports)
    logs = _logs(settings, place, report)
    runtime = Runtime(
        children=children,
        ownership=ownership,
        outputs=Outputs(logs, outlets.mirror, clock, report),
        environ={**without_secrets(environ), OWNER: mark.value},
        memory=partial(memory, Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")),
        clock=clock,
        report=report,
        guardian=guardian,
    )
    runtime = _with_standbys(settings, runtime)
    interrupts = Interrupts(report, logs.reopen, clock, given.patience.grace)
    notify = _listener(settings, runtime, removals)
    control = _control(given, chronicle, interrupts, runtime, removals)
    known = training, control.operations
    alerts = alerts_of(settings, given.targets, place, origin, runtime, *known)
    reports += [one.report for one in alerts]
    to_tell = chronicle, metrics, alerts
    return Parts(outlets, records, events, reserve, runtime, interrupts, notify, control, *to_tell)


def _outlets(settings: Settings, environ: Mapping[str, str], origin: Origin) -> Outlets:
    stdout, shown, level = _console(settings), settings.console_ranks, settings.log_level
    return Outlets(stdout, shown, level, origin, terminal_of(environ, settings.color))


def _control(
    given: Premises,
    chronicle: Chronicle,
    interrupts: Interrupts,
    runtime: Runtime,
    removals: Removals,
) -> ControlSocket:
    clock, report, must_notify = runtime.clock, runtime.report, given.limits.must_notify
    operations = Operations(chronicle, interrupts, clock, report, must_notify=must_notify)
    path = Path(socket_beside(given.place.state_file))
    return ControlSocket(path, operations, report, removals)


def _metrics(
    given: Premises, records: Records, training: TrainingRecord, clock: Clock
) -> tuple[Registry, ...]:
    """What --metrics-address, --metrics-file and --metrics-npu-exporter want."""
    settings, place = given.settings, given.place
    address, file, directory = (
        settings.metrics_address,
        settings.metrics_file,
        settings.metrics_npu_exporter,
    )
    if address is None and file is None and directory is None:
        return ()
    from ascend_supervisor.files.directories import PUBLIC_DIRECTORY_MODE  # noqa: PLC0415
    from ascend_supervisor.metrics.figures import labels_text, text_of  # noqa: PLC0415  (seldom)
    from ascend_supervisor.metrics.metrics_file import (  # noqa: PLC0415  # noqa: PLC0415
        SOURCE,
        MetricsFile,
        complaint_of_shared_directory,
        complaint_of_sharing,
    )
    from ascend_supervisor.metrics.registry import Registry  # noqa: PLC0415

    names = {"job_id": place.job_id, "pod_name": place.pod}
    text = partial(text_of, names=names)
    wanted: list[Outlet] = []
    if address is not None:
        from ascend_supervisor.metrics.metrics_address import MetricsAddress  # noqa: PLC0415

        wanted.append(MetricsAddress(address, text))
    if file is not None:
        path = Path(place.started_in / file)
        opened = partial(records.replaced, path, SOURCE, text, PUBLIC_DIRECTORY_MODE)
        complaint = partial(complaint_of_sharing, path, labels_text(names), time.time())
        wanted.append(MetricsFile(opened, clock, complaint))
    if directory is not None:
        from ascend_supervisor.metrics.metrics_file import FILES, npu_exporter_files  # noqa: PLC0415

        path = Path(place.started_in / directory)
        files = partial(npu_exporter_files, names=names)
        all_opened = partial(records.all_replaced, path, FILES, files)
        complaint = partial(complaint_of_shared_directory, path, labels_text(names), time.time())
        wanted.append(MetricsFile(all_opened, clock, complaint, FILES))
    return (Registry(wanted, training, clock),)


def _console(settings: Settings) -> StdoutFormat:
    if settings.console != "auto":
        return settings.console
    return "text" if os.isatty(1) else "json"


def _logs(settings: Settings, place: Place, report: Report) -> RankLogs:
    began = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
    process = f"supervisor process {os.getpid()}, started {began}"
    about = f"job {place.job_id}, {place.pod}, {process}"
    rotation = Rotation(settings.log_max_size, settings.log_keep, place.start.label)
    return RankLogs(rotation, about, report)


def _with_standbys(settings: Settings, runtime: Runtime) -> Runtime:
    """With --warm: the standbys are processes like the others, and need the same parts."""
    if not settings.warm:
        return runtime
    root = Path("/sys/fs/cgroup")
    free = partial(free_memory, Path("/proc/self/cgroup"), root, Path("/proc/meminfo"))
    standbys = Standbys(
        runtime.children,
        runtime.guardian,
        runtime.environ,
        settings.warm_import,
        Room.beside_ranks(free),
        runtime.clock,
        runtime.report,
    )
    return replace(runtime, standbys=standbys)


def _listener(settings: Settings, runtime: Runtime, removals: Removals) -> Listener:
    """What hears the ranks, once it is opened."""
    senders = partial(Senders, mark=runtime.ownership.mark, names=rank_names(settings.method))
    return Listener(
        senders, runtime.children.spare_descriptor, runtime.clock, runtime.report, removals
    )
