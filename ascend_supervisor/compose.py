"""From settings to parts, and a run of them."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Event
from typing import NoReturn

import anyio

from ascend_supervisor import __version__
from ascend_supervisor.check import plan_as_json
from ascend_supervisor.cluster import check_cluster, identity, table_now, table_source
from ascend_supervisor.coordination.alone import Alone
from ascend_supervisor.diagnostics import defect, report_diagnostics
from ascend_supervisor.errors import (
    DEFECT,
    UNAVAILABLE,
    CannotWrite,
    Refusal,
    Unavailable,
    scarcity,
)
from ascend_supervisor.events import (
    Diagnostic,
    OrphansKilled,
    StopWaiting,
    SupervisorExited,
    SupervisorStarted,
)
from ascend_supervisor.generation import Company, run_generation
from ascend_supervisor.interrupts import HEARD, Interrupts
from ascend_supervisor.launchers import WITHOUT_ADDRESS, Here, Launcher, without_address
from ascend_supervisor.life import Equip, Life, Plan, Start
from ascend_supervisor.methods import launcher_of
from ascend_supervisor.outcome import Ended, Patience
from ascend_supervisor.outlets import Format, Outlets
from ascend_supervisor.place import CACHE, Place, mounted_log_dir, names_of, place_of
from ascend_supervisor.plumbing.children import Children
from ascend_supervisor.plumbing.clock import MonotonicClock
from ascend_supervisor.plumbing.directories import can_be_made
from ascend_supervisor.plumbing.guardian import earlier_guardians
from ascend_supervisor.plumbing.kernel import become_subreaper, parent_death_prefix, start_guardian
from ascend_supervisor.plumbing.log_file import Rotation
from ascend_supervisor.plumbing.masking import masked_words
from ascend_supervisor.plumbing.memory_cgroup import oom_kills
from ascend_supervisor.plumbing.ownership import OWNER, Known, Ownership, owner_mark
from ascend_supervisor.plumbing.regular_file import read_regular_file
from ascend_supervisor.plumbing.reserve import Reserve
from ascend_supervisor.plumbing.stdout import put, tell
from ascend_supervisor.plumbing.sweep import sweep_descendants, sweep_leftovers
from ascend_supervisor.plumbing.threads import start_thread
from ascend_supervisor.policy import Backoff, RestartBudget
from ascend_supervisor.preparation import prepare
from ascend_supervisor.probes.devices import Devices, npus
from ascend_supervisor.process import changed, check_command
from ascend_supervisor.quantities import ALL_RANKS
from ascend_supervisor.rank_logs import RankLogs
from ascend_supervisor.records import Records
from ascend_supervisor.reporters import fan_out
from ascend_supervisor.reporters.log import Origin
from ascend_supervisor.sentences import printable
from ascend_supervisor.settings import Help, Settings, Version, read_settings
from ascend_supervisor.single_instance import Holder, SingleInstance
from ascend_supervisor.sources import CONFIG_BYTES
from ascend_supervisor.supervisor import Job, refused, supervise
from ascend_supervisor.usage import help_text
from ascend_supervisor.worker_group import Surroundings

DEVICES = Path("/dev")
DEFECT_SECONDS = 10.0
"""How long the ranks may take to die when it is we who have failed."""
LEFTOVER_SECONDS = 30.0
"""How long what an earlier start left behind may take to die."""
RELEASE_SECONDS = 10.0
"""CANN's EJ0001: wait so long after the last process before the devices are used again."""

LAST_WORDS_SECONDS = 10.0
"""How long after the last process we wait for the reader of what ranks said."""
ANSWER_SECONDS = 2.0
"""A disk may take so long to say whether there is a directory, or can be."""

Listen = Callable[[Mapping[int, Callable[[], None]]], None]
"""Calls the handlers for signals from now on; to be called with the event loop running."""
Leave = Callable[[int], NoReturn]
"""Ends the process with an exit code, whatever its threads are stuck in."""


def run(argv: Sequence[str], environ: Mapping[str, str], listen: Listen, leave: Leave) -> int:
    """The whole program. What starts a job ends in ``leave``; else this is the exit code."""
    try:
        settings = read_settings(argv, environ, partial(read_regular_file, most=CONFIG_BYTES))
        if isinstance(settings, Help):
            return _print(help_text())
        if isinstance(settings, Version):
            return _print(f"ascend_supervisor {__version__}\n")
        check_cluster(settings, environ)
        place = _place(settings, environ)
    except Refusal as refusal:
        return _refuse(refusal, environ)
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


async def _main(
    settings: Settings,
    environ: Mapping[str, str],
    place: Place,
    listen: Listen,
    leave: Leave,
) -> NoReturn:
    prefix = parent_death_prefix()
    mark = owner_mark(str(place.state_file))
    guardian = start_guardian(f"{OWNER}={mark}")
    become_subreaper()
    ownership = Ownership.from_now_on(mark)
    origin = Origin(place.job_id, place.pod, os.getpid())
    outlets = Outlets(_console(settings), settings.console_ranks, settings.log_level, origin)
    children = Children(prefix)
    reserve = Reserve()
    records = Records(place, settings.termination_log, outlets, reserve)
    report = fan_out((outlets.report, records.report))
    report_diagnostics(report, asyncio.get_running_loop())
    about = f"job {place.job_id}, {place.pod}, supervisor process {os.getpid()}"
    logs = RankLogs(Rotation(settings.log_max_size, settings.log_keep), about, report)
    clock = MonotonicClock()
    interrupts = Interrupts(report, logs.reopen, clock)
    handlers: dict[int, Callable[[], None]] = {signal.SIGCHLD: children.reap}
    handlers |= {number: partial(interrupts.hear, number) for number in HEARD}
    around = Surroundings(
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
    # The first line, whatever was heard before it; and from here on nothing fails before the last.
    report(_started(settings))
    listen(handlers)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(children.keep_reaping)
        tasks.start_soon(records.keep)
        tasks.start_soon(logs.watch)
        claim = partial(_claim, settings, place, records, reserve, around, interrupts)
        job = partial(_job, settings, environ, place, around, interrupts)
        exited = await _exited(claim, job, around)
        until = anyio.current_time() + LAST_WORDS_SECONDS
        await logs.finish()
        records.report(exited)  # these do not wait for whoever reads stdout
        await records.finish()
        await outlets.finish_output(until - anyio.current_time(), interrupts.hurry)
        await outlets.end(exited)
        await guardian.dismiss()
        tasks.cancel_scope.cancel()
    leave(exited.exit_code)


async def _claim(
    settings: Settings,
    place: Place,
    records: Records,
    reserve: Reserve,
    around: Surroundings,
    interrupts: Interrupts,
) -> None:
    """Begin the records once no other supervisor has this place; raises Unavailable.

    Told to stop while it is waited for the other one, we write nothing.
    """
    ourselves = Holder.ourselves(place.pod, max(settings.drain, settings.grace))
    state_file = Path(place.state_file)
    instance = SingleInstance(state_file, ourselves, reserve, around.clock, around.report)
    if await instance.claim(interrupts.stop):
        records.begin()


async def _exited(
    claim: Callable[[], Awaitable[None]], job: Callable[[], Job], around: Surroundings
) -> SupervisorExited:
    """The end of the job, whatever it is; nothing that was started is left."""
    try:
        await claim()
        return await supervise(job())
    except Refusal as refusal:
        return refused(refusal)
    except Exception as error:  # noqa: BLE001  (a defect of ours is an end, too)
        lacking = scarcity(error)
        if not lacking:
            around.report(defect(error))
        with suppress(OSError):
            await sweep_descendants(
                around.children, around.ownership, Known(), DEFECT_SECONDS, lambda _: None
            )
        if lacking:
            return refused(Unavailable(f"the machine has no room for this job: {lacking}"))
        reason = printable(f"a defect of ascend_supervisor, please report it: {error!r}")
        return SupervisorExited(DEFECT, reason, 0, reason)


def _place(settings: Settings, environ: Mapping[str, str]) -> Place:
    mounted = mounted_log_dir(environ)
    usual = mounted is None and settings.work_dir is None
    return place_of(
        environ,
        socket.gethostname(),
        mounted_log_exists=mounted is not None and _presumably(Path(mounted).is_dir),
        here=_here(),
        cache=CACHE if usual and _presumably(partial(can_be_made, Path(CACHE))) else None,
        log_dir=settings.log_dir,
        work_dir=settings.work_dir,
        state_file=settings.state_file,
    )


def _here() -> Path:
    """The directory that we were started in; raises CannotWrite where it has been deleted."""
    try:
        return Path.cwd()
    except OSError as error:
        raise CannotWrite(
            f"the working directory of the supervisor is gone: {error.strerror}; start it in a "
            "directory that exists"
        ) from error


def _started(settings: Settings) -> SupervisorStarted:
    return SupervisorStarted(
        version=__version__,
        command=masked_words(settings.command),
        method=settings.method,
        restarts=settings.restarts,
        settings=settings.told,
    )


def _console(settings: Settings) -> Format:
    if settings.console != "auto":
        return settings.console
    return "text" if os.isatty(1) else "json"


def _job(
    settings: Settings,
    environ: Mapping[str, str],
    place: Place,
    around: Surroundings,
    interrupts: Interrupts,
) -> Job:
    devices = npus(DEVICES)
    release = settings.release_delay
    if release is None:
        release = RELEASE_SECONDS if devices else 0.0
    launcher = launcher_of(settings, environ)
    budget = RestartBudget(
        limit=settings.restarts,
        period=settings.restart_period,
        backoff=Backoff(settings.restart_delay, settings.restart_delay_max),
        min_uptime=settings.min_uptime,
        never=settings.no_restart_on,
    )
    table = table_source(settings, environ, devices, around.clock, around.report)
    patience = Patience(drain=settings.drain, grace=settings.grace)

    async def run(life: Life, company: Company) -> Ended:
        return await run_generation(life, around, interrupts, patience, company)

    return Job(
        coordinator=Alone(table, identity(settings, environ), budget, around.clock, random.random),
        probes=[Devices(devices, around.clock, around.report)] if devices else [],
        sweep=partial(_end_leftovers, str(place.state_file), around),
        plan=partial(plan_of, launcher, place, ()),
        prepare=partial(_prepare, place, around),
        run=run,
        look=_see_nothing,
        release=release,
        interrupts=interrupts,
        clock=around.clock,
        report=around.report,
    )


async def _end_leftovers(place: str, around: Surroundings) -> None:
    """End what an earlier start in this place left; raises Unavailable where it stays."""

    def tell_left(left: tuple[str, ...]) -> None:
        around.report(StopWaiting(left))

    with around.children.room_to_look():
        swept = await sweep_leftovers(place, LEFTOVER_SECONDS, tell_left)
        if swept.killed:
            around.report(OrphansKilled(len(swept.killed), swept.killed, earlier_start=True))
        left = swept.left or await earlier_guardians(place, LEFTOVER_SECONDS, tell_left)
    if left:
        raise Unavailable(f"what an earlier start left behind cannot be ended: {'; '.join(left)}")


def plan_of(launcher: Launcher, place: Place, equips: Sequence[Equip], start: Start) -> Plan:
    """What is started here; each of ``equips`` adds to every process of it."""
    here = Here(start.node_rank, start.entry, place)
    specs = launcher.plan(start.found.table, here, start.generation)
    for equip in equips:
        specs = tuple(map(equip, specs))
    return Plan(start, specs)


async def _prepare(place: Place, around: Surroundings, plan: Plan) -> Plan:
    if plan.start.generation == 0 and without_address(plan.specs):
        around.report(Diagnostic("MASTER_ADDR", WITHOUT_ADDRESS, None))
    return await prepare(plan, place.table_file, around)


async def _see_nothing(life: Life) -> None:
    """Nothing looks at the processes of a generation before they are told to stop, yet."""


def _presumably(holds: Callable[[], bool]) -> bool:
    """Whether it holds of a directory; also where the file system does not say so in time."""
    found = [True]
    answered = Event()

    def ask() -> None:
        found[0] = holds()
        answered.set()

    start_thread(ask, "a directory")
    answered.wait(ANSWER_SECONDS)
    return found[0]


def _check(settings: Settings, environ: Mapping[str, str], place: Place) -> int:
    """Print the plan; gives the code that the run would give as far as it can be known."""
    try:
        plan, specs = plan_as_json(
            anyio.run(table_now, settings, environ, npus(DEVICES)),
            identity(settings, environ),
            place,
            launcher_of(settings, environ),
            settings.told,
        )
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


def _refuse(refusal: Refusal, environ: Mapping[str, str]) -> int:
    """Tell why nothing was started, sentence by sentence for people and as an event."""
    anyio.run(_tell, refusal, environ)
    return refusal.exit_code


async def _tell(refusal: Refusal, environ: Mapping[str, str]) -> None:
    job_id, pod = names_of(environ, socket.gethostname())
    console: Format = "none" if os.isatty(1) else "json"
    outlets = Outlets(console, ALL_RANKS, "info", Origin(job_id, pod, os.getpid()))
    if outlets.for_machines:
        outlets.report(refused(refusal))
        await outlets.finish()
    for fault in refusal.faults:
        outlets.complain(fault)
    await outlets.finish()
