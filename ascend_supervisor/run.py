"""One run of the program: read the settings, run the job, write the last messages."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NoReturn

import anyio
from msgspec import Struct

from ascend_supervisor import __version__
from ascend_supervisor.answers import cannot_start, print_answer, print_plan, refuse
from ascend_supervisor.cluster.cluster_source import Cluster
from ascend_supervisor.control.chronicle import Chronicle
from ascend_supervisor.control.server import ControlSocket
from ascend_supervisor.coordination.last_server import ends_last
from ascend_supervisor.errors import DEFECT, Refusal, Unavailable
from ascend_supervisor.events.supervisor import (
    Diagnostic,
    ExitLingering,
    SupervisorExited,
    SupervisorStarted,
)
from ascend_supervisor.files.regular_file import read_regular_file
from ascend_supervisor.files.reserved_descriptor import Reserve
from ascend_supervisor.first_event import first_event
from ascend_supervisor.job_files import Place
from ascend_supervisor.lock_holder import Holder
from ascend_supervisor.notify.listener import Listener
from ascend_supervisor.output.line_formats import Origin
from ascend_supervisor.output.log_file import Rotation
from ascend_supervisor.output.rank_logs import RankLogs
from ascend_supervisor.output.rank_output import Outputs
from ascend_supervisor.processes.children import Children
from ascend_supervisor.processes.kernel import become_subreaper, parent_death_prefix, start_guardian
from ascend_supervisor.processes.memory_cgroup import oom_kills
from ascend_supervisor.processes.ownership import Known, Mark, Ownership
from ascend_supervisor.processes.sweep import sweep_descendants
from ascend_supervisor.received_signals import HEARD, Interrupts, Listen
from ascend_supervisor.reporters import fan_out
from ascend_supervisor.reporters.python_warnings import defect, report_diagnostics
from ascend_supervisor.reporters.records import Records, first_status
from ascend_supervisor.reporters.stdout import Format, Outlets
from ascend_supervisor.scarcity import NoThread, scarcity
from ascend_supervisor.settings.precedence import (
    Help,
    Settings,
    Version,
    console_of,
    read_settings,
)
from ascend_supervisor.settings.rank_variables import OWNER
from ascend_supervisor.settings.sources import CONFIG_BYTES
from ascend_supervisor.settings.usage import help_text
from ascend_supervisor.single_instance import SingleInstance
from ascend_supervisor.sourced_files import without_cann
from ascend_supervisor.supervisor import Broken, Exit, Job, refused, supervise
from ascend_supervisor.tasks.clock import MonotonicClock, RunningLoop
from ascend_supervisor.untrusted_text import printable
from ascend_supervisor.usable_directories import place_here
from ascend_supervisor.wiring import cluster_here, control_of, job_of, listener_of
from ascend_supervisor.workers.runtime import Runtime

GUARDIAN = Path(__file__).with_name("programs") / "guardian.py"
DEFECT_SECONDS = 10.0
"""How long the ranks may take to die after a defect of ours."""
LAST_WORDS_SECONDS = 10.0
"""How long after the last process we wait for the reader of rank output."""
Leave = Callable[[int], NoReturn]
"""Ends the process with an exit code, even if threads are stuck."""
NewLoop = Callable[[], asyncio.AbstractEventLoop]


def run(
    argv: Sequence[str],
    environ: Mapping[str, str],
    listen: Listen,
    leave: Leave,
    new_loop: NewLoop = RunningLoop,
) -> int:
    """The whole program. A run with a job ends in ``leave``; else this returns the exit code.

    The job runs in an event loop that ``new_loop`` makes; all its time limits follow the loop's
    time.
    """
    try:
        return _run(argv, environ, listen, leave, new_loop)
    except (NoThread, OSError) as error:
        return cannot_start(error)


def _run(
    argv: Sequence[str],
    environ: Mapping[str, str],
    listen: Listen,
    leave: Leave,
    new_loop: NewLoop,
) -> int:
    try:
        settings = read_settings(argv, environ, partial(read_regular_file, most=CONFIG_BYTES))
    except Refusal as refusal:
        return refuse(refusal, environ, console_of(argv, environ))
    if isinstance(settings, Help):
        return print_answer(help_text())
    if isinstance(settings, Version):
        return print_answer(f"ascend_supervisor {__version__}\n")
    try:
        cluster = cluster_here(settings, environ)
        place = place_here(settings, environ)
    except Refusal as refusal:
        return refuse(refusal, environ, settings.console, settings.retryable_exit_code)
    if settings.check:
        return print_plan(settings, environ, place, cluster, listen)
    first = first_event(settings, cluster, place)
    options = {"loop_factory": new_loop}
    return anyio.run(
        _main, settings, environ, place, cluster, first, listen, leave, backend_options=options
    )


class _Parts(Struct, frozen=True):
    """The parts of a run besides its job."""

    outlets: Outlets
    records: Records
    reserve: Reserve
    runtime: Runtime
    interrupts: Interrupts
    notify: Listener
    control: ControlSocket
    chronicle: Chronicle

    async def linger(self, end: SupervisorExited, seconds: float) -> None:
        """Wait with the end, unless we are told to stop: until then other servers end."""
        if not seconds or await self.interrupts.stop_within(0):
            return
        self.runtime.report(
            ExitLingering(seconds, end.exit_code, end.reason, end.root_cause, end.own_exit_code)
        )
        await self.interrupts.stop_within(seconds)

    async def last_words(self, end: Exit) -> None:
        """Write everything that is left, the last event at the end; takes a bounded time."""
        until = anyio.current_time() + LAST_WORDS_SECONDS
        await self.runtime.outputs.logs.finish()
        self.records.report(end.event)  # these do not wait for the reader of stdout
        self.chronicle.report(end.event)
        await self.records.finish()
        await self.outlets.finish_output(until - anyio.current_time(), self.interrupts.hurry)
        await self.outlets.end(end.event, end.refusal)
        await self.runtime.guardian.dismiss()


def _parts(
    settings: Settings, environ: Mapping[str, str], place: Place, ourselves: Holder
) -> _Parts:
    """Make them, in this order: each step depends on the one before it."""
    prefix = parent_death_prefix()
    mark = Mark.ours(OWNER, str(place.state_file))
    guardian = start_guardian(GUARDIAN, mark)
    become_subreaper()
    ownership = Ownership.from_now_on(mark)
    origin = Origin(place.job_id, place.pod, os.getpid())
    console, terminal = _console(settings), environ.get("TERM", "")
    outlets = Outlets(console, settings.console_ranks, settings.log_level, origin, terminal)
    children = Children(prefix)
    reserve = Reserve()  # only now: it may take the last descriptor
    clock = MonotonicClock()
    chronicle = Chronicle(first_status(place, ourselves.start_time), clock)
    records = Records(place, chronicle.status, settings.termination_log, outlets, reserve)
    report = fan_out((outlets.report, records.report, chronicle.report))
    about = f"job {place.job_id}, {place.pod}, supervisor process {os.getpid()}"
    rotation = Rotation(settings.log_max_size, settings.log_keep, place.start.label)
    logs = RankLogs(rotation, about, report)
    runtime = Runtime(
        children=children,
        ownership=ownership,
        outputs=Outputs(logs, outlets.mirror, clock, report),
        environ={**environ, OWNER: mark.value},
        oom_kills=partial(oom_kills, Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")),
        clock=clock,
        report=report,
        guardian=guardian,
    )
    interrupts = Interrupts(report, logs.reopen, clock, settings.grace)
    notify = listener_of(settings, runtime)
    control = control_of(settings, place, chronicle, interrupts, clock, report)
    return _Parts(outlets, records, reserve, runtime, interrupts, notify, control, chronicle)


async def _main(
    settings: Settings,
    environ: Mapping[str, str],
    place: Place,
    cluster: Cluster,
    first: SupervisorStarted,
    listen: Listen,
    leave: Leave,
) -> NoReturn:
    ourselves = Holder.ourselves(place.pod, max(settings.drain, settings.grace))
    parts = _parts(settings, environ, place, ourselves)
    runtime, interrupts, operations = parts.runtime, parts.interrupts, parts.control.operations
    report_diagnostics(runtime.report, asyncio.get_running_loop())
    handlers: dict[int, Callable[[], None]] = {signal.SIGCHLD: runtime.children.reap}
    handlers |= {number: partial(interrupts.hear, number) for number in HEARD}
    # The first line, even if signals came before it; from here on the last line always follows.
    runtime.report(first)
    if hint := without_cann(settings.env_from, environ):
        runtime.report(Diagnostic("CANN", hint, None))
    listen(handlers)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(runtime.children.keep_reaping)
        tasks.start_soon(parts.records.keep)
        tasks.start_soon(parts.outlets.keep_current)
        tasks.start_soon(parts.control.serve)
        tasks.start_soon(runtime.outputs.logs.watch)
        tasks.start_soon(parts.notify.listen)
        job = partial(
            job_of, settings, environ, place, cluster, runtime, interrupts, parts.notify, operations
        )
        end = await _exited(partial(_claim, ourselves, place, parts), job, runtime)
        end = end.with_retryable_code(settings.retryable_exit_code)
        await parts.notify.remove_file()
        if end.is_retryable and ends_last(end.start, environ):
            await parts.linger(end.event, settings.exit_linger)
        await parts.last_words(end)
        tasks.cancel_scope.cancel()
    leave(end.event.exit_code)


async def _claim(ourselves: Holder, place: Place, parts: _Parts) -> None:
    """Begin the records, and listen, once no other supervisor uses this state file.

    Raises Unavailable if one does, or OSError at EMFILE and the like.

    If we are told to stop while we wait for the other one, nothing is written.
    """
    clock, report = parts.runtime.clock, parts.runtime.report
    instance = SingleInstance(Path(place.state_file), ourselves, parts.reserve, clock, report)
    if await instance.claim(parts.interrupts.stop):
        parts.records.begin()
        await parts.notify.open(place.state_file)
        parts.control.begin()


async def _exited(
    claim: Callable[[], Awaitable[None]], job: Callable[[], Awaitable[Job]], runtime: Runtime
) -> Exit:
    """Run the job; every exception becomes the final event, and no process is left."""
    try:
        await claim()
        return await supervise(await job())
    except Refusal as refusal:
        return refused(refusal)
    except Broken as broken:
        return await _broken(broken.error, runtime, broken.generations)
    except Exception as error:  # noqa: BLE001  (a defect of ours is an end, too)
        return await _broken(error, runtime)


async def _broken(error: Exception, runtime: Runtime, generations: int = 0) -> Exit:
    """The end by an error that nobody expected, or by a lack that nothing waits for."""
    shortage = scarcity(error)
    if not shortage:
        runtime.report(defect(error))
    with suppress(Exception):  # the last event and the exit code come, whatever fails here
        await sweep_descendants(
            runtime.children, runtime.ownership, Known(), DEFECT_SECONDS, lambda _: None
        )
    if shortage:
        what = "" if isinstance(error, NoThread) else "the machine has no room for this job: "
        return refused(Unavailable(f"{what}{shortage}"), generations)
    reason = printable(f"a defect of ascend_supervisor, please report it: {error!r}")
    return Exit(SupervisorExited(DEFECT, reason, generations, reason), reason, is_retryable=True)


def _console(settings: Settings) -> Format:
    if settings.console != "auto":
        return settings.console
    return "text" if os.isatty(1) else "json"
