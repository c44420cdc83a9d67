"""A run of the program: what it is asked for, the job, and the last words."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn

import anyio

from ascend_supervisor import __version__
from ascend_supervisor.check import plan_as_json
from ascend_supervisor.cluster.table_source import check_cluster, identity, table_now
from ascend_supervisor.errors import (
    DEFECT,
    UNAVAILABLE,
    CannotWrite,
    Refusal,
    Unavailable,
    scarcity,
)
from ascend_supervisor.events import (
    SupervisorExited,
    SupervisorStarted,
)
from ascend_supervisor.files.regular import read_regular_file
from ascend_supervisor.files.reserve import Reserve
from ascend_supervisor.files.standard_streams import put, tell
from ascend_supervisor.interrupts import HEARD, Interrupts
from ascend_supervisor.launchers.choice import launcher_of
from ascend_supervisor.locations import place_here
from ascend_supervisor.output.lines import Origin
from ascend_supervisor.output.log_file import Rotation
from ascend_supervisor.output.rank_logs import RankLogs
from ascend_supervisor.paths import Place, names_of
from ascend_supervisor.probes.devices import npus
from ascend_supervisor.processes.children import Children
from ascend_supervisor.processes.kernel import become_subreaper, parent_death_prefix, start_guardian
from ascend_supervisor.processes.memory_cgroup import oom_kills
from ascend_supervisor.processes.ownership import OWNER, Known, Ownership, owner_mark
from ascend_supervisor.processes.secrets import masked_words
from ascend_supervisor.processes.sweep import sweep_descendants
from ascend_supervisor.quoting import printable
from ascend_supervisor.reporters import fan_out
from ascend_supervisor.reporters.python_warnings import defect, report_diagnostics
from ascend_supervisor.reporters.records import Records
from ascend_supervisor.reporters.stdout import Format, Outlets
from ascend_supervisor.settings.precedence import Help, Settings, Version, read_settings
from ascend_supervisor.settings.sources import CONFIG_BYTES
from ascend_supervisor.settings.usage import help_text
from ascend_supervisor.settings.values import ALL_RANKS, Console
from ascend_supervisor.single_instance import Holder, SingleInstance
from ascend_supervisor.supervisor import Job, refused, supervise
from ascend_supervisor.tasks.clock import MonotonicClock
from ascend_supervisor.wiring import DEVICES, job_of
from ascend_supervisor.workers.preparation import check_command
from ascend_supervisor.workers.process import changed
from ascend_supervisor.workers.runtime import Runtime

DEFECT_SECONDS = 10.0
"""How long the ranks may take to die when it is we who have failed."""
LAST_WORDS_SECONDS = 10.0
"""How long after the last process we wait for the reader of what ranks said."""
Listen = Callable[[Mapping[int, Callable[[], None]]], None]
"""Calls the handlers for signals from now on; to be called with the event loop running."""
Leave = Callable[[int], NoReturn]
"""Ends the process with an exit code, whatever its threads are stuck in."""


def run(argv: Sequence[str], environ: Mapping[str, str], listen: Listen, leave: Leave) -> int:
    """The whole program. What starts a job ends in ``leave``; else this is the exit code."""
    console: Console = "auto"
    try:
        settings = read_settings(argv, environ, partial(read_regular_file, most=CONFIG_BYTES))
        if isinstance(settings, Help):
            return _print(help_text())
        if isinstance(settings, Version):
            return _print(f"ascend_supervisor {__version__}\n")
        console = settings.console
        check_cluster(settings, environ)
        place = place_here(settings, environ)
    except Refusal as refusal:
        return _refuse(refusal, environ, console)
    if settings.check:
        return _check(settings, environ, place)
    try:
        return anyio.run(_main, settings, environ, place, listen, leave)
    except (Unavailable, OSError) as error:
        lacking = scarcity(error) or (str(error) if isinstance(error, Unavailable) else None)
        if lacking is None:
            raise
        # There is no way to tell events yet: a loop and its writers need files and threads.
        sys.unraisablehook = lambda _: None  # a loop that is half made cannot even be closed
        tell(f"ascend_supervisor: cannot start: {lacking}")
        return UNAVAILABLE


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a run has besides its job."""

    outlets: Outlets
    records: Records
    reserve: Reserve
    runtime: Runtime
    interrupts: Interrupts

    async def last_words(self, exited: SupervisorExited) -> None:
        """Write all that is still to be written, the last event at the end; it is bounded."""
        until = anyio.current_time() + LAST_WORDS_SECONDS
        await self.runtime.logs.finish()
        self.records.report(exited)  # these do not wait for whoever reads stdout
        await self.records.finish()
        await self.outlets.finish_output(until - anyio.current_time(), self.interrupts.hurry)
        await self.outlets.end(exited)
        await self.runtime.guardian.dismiss()


def _parts(
    settings: Settings, environ: Mapping[str, str], place: Place, ourselves: Holder
) -> _Parts:
    """Make them, in this order: each step needs what the one before it has asked of the kernel."""
    prefix = parent_death_prefix()
    mark = owner_mark(str(place.state_file))
    guardian = start_guardian(f"{OWNER}={mark}")
    become_subreaper()
    ownership = Ownership.from_now_on(mark)
    origin = Origin(place.job_id, place.pod, os.getpid())
    outlets = Outlets(_console(settings), settings.console_ranks, settings.log_level, origin)
    children = Children(prefix)
    reserve = Reserve()  # only now: it may take the last descriptor
    records = Records(place, ourselves.start_time, settings.termination_log, outlets, reserve)
    report = fan_out((outlets.report, records.report))
    about = f"job {place.job_id}, {place.pod}, supervisor process {os.getpid()}"
    logs = RankLogs(Rotation(settings.log_max_size, settings.log_keep), about, report)
    clock = MonotonicClock()
    runtime = Runtime(
        children=children,
        ownership=ownership,
        logs=logs,
        mirror=outlets.mirror,
        environ={**environ, OWNER: mark},
        oom_kills=partial(oom_kills, Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")),
        clock=clock,
        report=report,
        guardian=guardian,
    )
    return _Parts(outlets, records, reserve, runtime, Interrupts(report, logs.reopen, clock))


async def _main(
    settings: Settings,
    environ: Mapping[str, str],
    place: Place,
    listen: Listen,
    leave: Leave,
) -> NoReturn:
    ourselves = Holder.ourselves(place.pod, max(settings.drain, settings.grace))
    parts = _parts(settings, environ, place, ourselves)
    runtime, interrupts = parts.runtime, parts.interrupts
    report_diagnostics(runtime.report, asyncio.get_running_loop())
    handlers: dict[int, Callable[[], None]] = {signal.SIGCHLD: runtime.children.reap}
    handlers |= {number: partial(interrupts.hear, number) for number in HEARD}
    # The first line, whatever was heard before it; and from here on nothing fails before the last.
    runtime.report(_started(settings))
    listen(handlers)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(runtime.children.keep_reaping)
        tasks.start_soon(parts.records.keep)
        tasks.start_soon(runtime.logs.watch)
        job = partial(job_of, settings, environ, place, runtime, interrupts)
        exited = await _exited(partial(_claim, ourselves, place, parts), job, runtime)
        await parts.last_words(exited)
        tasks.cancel_scope.cancel()
    leave(exited.exit_code)


async def _claim(ourselves: Holder, place: Place, parts: _Parts) -> None:
    """Begin the records once no other supervisor has this place; raises Unavailable.

    Told to stop while it is waited for the other one, we write nothing.
    """
    clock, report = parts.runtime.clock, parts.runtime.report
    instance = SingleInstance(Path(place.state_file), ourselves, parts.reserve, clock, report)
    if await instance.claim(parts.interrupts.stop):
        parts.records.begin()


async def _exited(
    claim: Callable[[], Awaitable[None]], job: Callable[[], Job], runtime: Runtime
) -> SupervisorExited:
    """Run the job; every exception becomes the final event, and no process is left."""
    try:
        await claim()
        return await supervise(job())
    except Refusal as refusal:
        return refused(refusal)
    except Exception as error:  # noqa: BLE001  (a defect of ours is an end, too)
        lacking = scarcity(error)
        if not lacking:
            runtime.report(defect(error))
        with suppress(Exception):  # the last event and the exit code come, whatever fails here
            await sweep_descendants(
                runtime.children, runtime.ownership, Known(), DEFECT_SECONDS, lambda _: None
            )
        if lacking:
            return refused(Unavailable(f"the machine has no room for this job: {lacking}"))
        reason = printable(f"a defect of ascend_supervisor, please report it: {error!r}")
        return SupervisorExited(DEFECT, reason, 0, reason)


def _started(settings: Settings) -> SupervisorStarted:
    return SupervisorStarted(
        version=__version__,
        command=masked_words(settings.command),
        method=settings.method,
        restarts=settings.restarts,
        settings=settings.non_defaults,
    )


def _console(settings: Settings) -> Format:
    if settings.console != "auto":
        return settings.console
    return "text" if os.isatty(1) else "json"


def _check(settings: Settings, environ: Mapping[str, str], place: Place) -> int:
    """Print the plan; gives the code that the run would give as far as it can be known."""
    try:
        launcher = launcher_of(settings, environ)
        needs_file = launcher.needs_table_file
        found = anyio.run(table_now, settings, environ, npus(DEVICES), needs_file)
        whoami = identity(settings, environ)
        plan, specs = plan_as_json(found, whoami, place, launcher, settings.non_defaults)
        for spec in specs:
            check_command(spec, changed(environ, spec.environ))
    except Refusal as refusal:
        return _refuse(refusal, environ)
    return _print(plan.decode())


def _print(answer: str) -> int:
    """The exit code: 0 when all of ``answer`` is on stdout, 73 when it cannot be written.

    141 when nobody reads it to its end, without a word, as of a program that SIGPIPE has ended.
    """
    try:
        put(answer.encode())
    except BrokenPipeError:
        return 128 + signal.SIGPIPE
    except CannotWrite as refusal:
        tell(f"ascend_supervisor: {refusal}")
        return refusal.exit_code
    return 0


def _refuse(refusal: Refusal, environ: Mapping[str, str], console: Console = "auto") -> int:
    """Tell why nothing was started, sentence by sentence for people and as an event."""
    anyio.run(_tell, refusal, environ, console)
    return refusal.exit_code


async def _tell(refusal: Refusal, environ: Mapping[str, str], console: Console) -> None:
    job_id, pod = names_of(environ, socket.gethostname())
    usual: Format = "none" if os.isatty(1) else "json"
    format_ = usual if console == "auto" else console
    outlets = Outlets(format_, ALL_RANKS, "info", Origin(job_id, pod, os.getpid()))
    if format_ in {"json", "text"}:
        outlets.report(refused(refusal))
        await outlets.finish()
    if format_ != "text":
        for fault in refusal.faults:
            outlets.complain(fault)
    await outlets.finish()
