"""From settings to the parts of a job, and to what its launcher starts in each generation."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from time import thread_time
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ascend_supervisor.cluster.made_table import standalone_table
from ascend_supervisor.cluster.own_devices import npu_files
from ascend_supervisor.control.operations import Dump, Running
from ascend_supervisor.errors import HANG, Refusal, Unavailable
from ascend_supervisor.events.hangs import StacksTaken
from ascend_supervisor.events.leftovers import OrphansKilled
from ascend_supervisor.events.supervisor import Diagnostic
from ascend_supervisor.job_files import Place
from ascend_supervisor.launchers.choice import USUAL_PORTS
from ascend_supervisor.launchers.rank_environment import WITHOUT_ADDRESS, without_address
from ascend_supervisor.life import Life, NothingSeen, Plan, Start
from ascend_supervisor.outcome import Completed, Ended, Fault, Outcome
from ascend_supervisor.probes import Probe
from ascend_supervisor.probes.devices import Devices
from ascend_supervisor.probes.rendezvous import OwnPort, Rendezvous
from ascend_supervisor.probes.silence import Silence
from ascend_supervisor.probes.training import Attention, Training
from ascend_supervisor.process_spec import ProcessSpec
from ascend_supervisor.processes.guardian_link import earlier_guardians
from ascend_supervisor.processes.left import Left
from ascend_supervisor.processes.scheduling import bind
from ascend_supervisor.processes.shell_file import Changes
from ascend_supervisor.processes.sweep import sweep_leftovers
from ascend_supervisor.program.coordination import coordinator_of
from ascend_supervisor.program.cpu_binding import Binding
from ascend_supervisor.program.parts import Parts
from ascend_supervisor.program.planner import Planner, binding_of, planner
from ascend_supervisor.program.premises import DEVICES, Premises
from ascend_supervisor.program.server_checks import facts_here, server_checks
from ascend_supervisor.program.sourced_files import sourced_files
from ascend_supervisor.program.warming import Warming
from ascend_supervisor.progress.pattern_format import format_of_pattern
from ascend_supervisor.supervisor import Job
from ascend_supervisor.workers.generation import Company, LastLook, Run, run_generation
from ascend_supervisor.workers.preparation import addresses_of, prepare
from ascend_supervisor.workers.runtime import Runtime
from ascend_supervisor.workers.shutdown import waiting_for

if TYPE_CHECKING:
    from ascend_supervisor.stacks.look import Stacks


async def prepared(
    place: Place, runtime: Runtime, again: Planner, binding: Binding | None, plan: Plan
) -> Plan:
    """Prepare the plan, made ``again`` with addresses if it holds host names.

    We leave the CPUs that it gives to its processes.
    """
    hosts = {host for spec in plan.specs for host in spec.host_names}
    if hosts:
        addresses = await addresses_of(hosts, runtime.clock, runtime.report)
        plan = again(plan.start, addresses)
    if plan.start.generation == 0 and without_address(plan.specs):
        runtime.report(Diagnostic("MASTER_ADDR", WITHOUT_ADDRESS, None))
    if plan.start.generation == 0 and plan.remark:
        runtime.report(Diagnostic("--bind-cpus", plan.remark, None))
    if binding is not None:
        bind(os.getpid(), binding.rest(plan.specs))
    return await prepare(plan, place.table_file, runtime)


LEFTOVER_SECONDS = 30.0
"""How long processes of an earlier start may take to die."""
RELEASE_SECONDS = 10.0
"""CANN's EJ0001: wait this long after the last process before using the devices again."""


async def job_of(given: Premises, parts: Parts) -> Job:
    """The job; raises a Refusal if a file for the environment of the ranks is refused."""
    settings, runtime, interrupts = given.settings, parts.runtime, parts.interrupts
    operations = parts.control.operations
    changes = await _changes(settings.env_from, parts)
    plan = _planner_of(given, changes, parts.notify.address)
    devices = npu_files(DEVICES)
    look, dump = _looks(given, parts)
    is_alone = _alone(given.joins_others)
    training = _training(given, parts, look)
    run = _with_plogs_removed(given, runtime, _runner(given, parts, is_alone, training, dump))
    operations.coordinator = coordinator_of(
        given,
        runtime,
        training,
        facts_here(given, changes, runtime),
        parts.chronicle.status.no_progress,
    )
    return Job(
        coordinator=operations.coordinator,
        probes=[
            *server_checks(given, changes, runtime),
            *_for_devices(devices, runtime),
            Rendezvous(runtime.clock, runtime.report),
            # Also without limits: a rank may say itself that it hangs.
            Silence(given.limits, runtime.clock, runtime.report),
            training,
            *_warming(given, runtime, plan, training),
            operations.requests,
        ],
        sweep=partial(_end_leftovers, runtime),
        plan=plan,
        prepare=partial(prepared, given.place, runtime, plan, binding_of(given)),
        run=run,
        look=look,
        release=_release_seconds(settings.release_delay, devices),
        interrupts=interrupts,
        clock=runtime.clock,
        report=runtime.report,
    )


async def _changes(files: Sequence[Path], parts: Parts) -> Changes:
    """What the files of --env-from change in the environment of the ranks."""
    runtime = parts.runtime
    return await sourced_files(
        files,
        runtime.environ,
        runtime.children,
        runtime.ownership,
        parts.interrupts,
        runtime.clock,
        runtime.report,
    )


def _planner_of(given: Premises, changes: Changes, notify: str | None) -> Planner:
    port = OwnPort(USUAL_PORTS.get(given.settings.method))
    return planner(given, given.launcher(changes), changes, notify, port)


def _alone(joins: bool) -> Callable[[Start], bool]:
    """Whether no other server takes part; ``joins``: the ranks need a process in another pod."""
    return lambda start: start.holds_all_ranks and not joins


def _training(given: Premises, parts: Parts, look: LastLook) -> Training:
    settings, runtime = given.settings, parts.runtime
    attention = Attention(
        is_on=settings.progress == "auto",
        patterns=tuple(
            format_of_pattern(pattern, thread_time) for pattern in settings.progress_pattern
        ),
        tells_stalls=settings.stall_notice == "on",
        ends_hangs=settings.hang_timeout == "auto",
        startup=settings.startup_timeout,
    )
    return Training(parts.chronicle.training, attention, look, runtime.clock, runtime.report)


def _runner(
    given: Premises,
    parts: Parts,
    is_alone: Callable[[Start], bool],
    training: Training,
    dump: Dump,
) -> Run:
    """Runs a generation; what its ranks say is heard from before the first of them."""
    interrupts, patience = parts.interrupts, given.patience

    async def run(life: Life, company: Company) -> Ended:
        start = life.plan.start
        running = Running(life, dump, bool(given.settings.peers) or is_alone(start))
        parts.notify.attend(life)
        training.begin(life)

        async def announce(outcome: Outcome, uptime: float) -> None:
            hung = isinstance(outcome, Fault) and outcome.exit_code == HANG
            training.stop(hung=hung, completed=isinstance(outcome, Completed))
            await company.announce(outcome, uptime)

        told = replace(company, announce=announce)
        try:
            with parts.control.operations.current.watching(running):
                ended = await run_generation(life, parts.runtime, interrupts, patience, told)
        finally:  # after a defect, too: a later start goes on with the account
            reached = training.end(life)
        ended = replace(ended, reached=reached)
        return ended.of_all_ranks if is_alone(start) else ended

    return run


def _with_plogs_removed(given: Premises, runtime: Runtime, run: Run) -> Run:
    keep = given.settings.plog_keep
    if keep is None:
        return run
    from ascend_supervisor.program.plog_keeping import PlogKeeping  # noqa: PLC0415  (seldom)

    return PlogKeeping(keep, given.place, runtime.environ, runtime.report).around(run)


def _looks(given: Premises, parts: Parts) -> tuple[LastLook, Dump]:
    """Looks at the stacks of all ranks: at those that hang, and whenever an operator asks."""

    @cache
    def stacks() -> Stacks:
        from ascend_supervisor.stacks.look import Stacks  # noqa: PLC0415  (see late_imports)

        return Stacks(given.settings.hang_dump, given.place, parts.runtime, parts.interrupts)

    async def look(life: Life) -> str:
        return await stacks().look(life)

    async def dump(life: Life) -> StacksTaken | NothingSeen:
        return await stacks().take(life, "dump")

    return look, dump


def _warming(
    given: Premises, runtime: Runtime, plan: Planner, training: Training
) -> Sequence[Probe]:
    if runtime.standbys is None:
        return []
    foreseen = _foreseen(given, plan)
    return [Warming(runtime.standbys, foreseen, training.first_step, runtime.clock)]


def _foreseen(given: Premises, plan: Planner) -> Sequence[ProcessSpec]:
    """The ranks of the first generation if this server holds the first ranks, one for each NPU."""
    found = given.cluster.given
    if found is None:
        if not (count := len(given.cluster.published) or len(npu_files(DEVICES))):
            return ()
        found = standalone_table(count)
    node_rank = given.cluster.node_rank or 0
    start = Start(0, found, node_rank, found.table.entries[node_rank], 0)
    with suppress(Refusal):
        return plan(start).specs
    return ()


def _for_devices(devices: Sequence[str], runtime: Runtime) -> Sequence[Probe]:
    return [Devices(devices, runtime.clock, runtime.report)] if devices else []


def _release_seconds(asked: float | None, devices: Sequence[str]) -> float:
    if asked is not None:
        return asked
    return RELEASE_SECONDS if devices else 0.0


async def _end_leftovers(runtime: Runtime) -> None:
    """End processes of an earlier start with our state file; raises Unavailable if any is left."""

    def tell_left(left: Left) -> None:
        runtime.report(waiting_for(left))

    mark = runtime.ownership.mark
    with runtime.children.spare_descriptor():
        swept = await sweep_leftovers(mark, LEFTOVER_SECONDS, tell_left)
        if swept.killed:
            runtime.report(OrphansKilled(len(swept.killed), swept.killed, earlier_start=True))
        left = swept.left or await earlier_guardians(mark, LEFTOVER_SECONDS, tell_left)
    if left:
        raise Unavailable(f"what an earlier start left behind cannot be ended: {'; '.join(left)}")
