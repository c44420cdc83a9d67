"""The story: get ready, plan, prepare, run, decide; again, or the end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count

import anyio

from ascend_supervisor.errors import Refusal, Unavailable
from ascend_supervisor.events import (
    Diagnostic,
    GenerationEnded,
    GenerationStarted,
    OrphansKilled,
    RankTableReady,
    Report,
    RestartScheduled,
    StopWaiting,
    SupervisorExited,
)
from ascend_supervisor.generation import Patience, prepare, run_generation
from ascend_supervisor.identity import Identity, find_entry
from ascend_supervisor.interrupts import Interrupts
from ascend_supervisor.launchers import WITHOUT_ADDRESS, Here, Launcher, without_address
from ascend_supervisor.outcome import Completed, Crashed, Fault, Interrupted, NotStarted, Outcome
from ascend_supervisor.place import Place
from ascend_supervisor.plumbing.guardian import earlier_guardians
from ascend_supervisor.plumbing.race import every, first
from ascend_supervisor.plumbing.sweep import sweep_leftovers
from ascend_supervisor.plumbing.threads import in_thread
from ascend_supervisor.policy import Decision, RestartBudget, Stop, decide, stopped_by
from ascend_supervisor.probes import Probe
from ascend_supervisor.rank_table_file import FoundTable, keep_copy
from ascend_supervisor.root_cause import root_cause
from ascend_supervisor.sentences import printable
from ascend_supervisor.spec import ProcessSpec
from ascend_supervisor.worker_group import Surroundings

LEFTOVER_SECONDS = 30.0
"""How long what an earlier start left behind may take to die."""


@dataclass(frozen=True, slots=True)
class Job:
    """What is supervised, and what with. ``release`` is in seconds."""

    table: Callable[[], Awaitable[FoundTable]]
    identity: Identity
    place: Place
    launcher: Launcher
    budget: RestartBudget
    patience: Patience
    release: float
    probes: Sequence[Probe]
    around: Surroundings
    interrupts: Interrupts
    random: Callable[[], float]


async def supervise(job: Job) -> SupervisorExited:
    """Run the job to its end, and give the event that tells it.

    Nothing that was started is left, whatever the end is. A Refusal is an end like any other.
    """
    around = job.around
    budget = job.budget
    last: Outcome | None = None
    for generation in count():
        try:
            plan = await first(partial(_interrupted, job), partial(_ready, job, generation))
        except Refusal as refusal:
            return refused(refusal, generation)
        if isinstance(plan, Interrupted):
            return _ended(generation, stopped_by(plan.signal), root_cause(last or plan))
        around.report(GenerationStarted(generation, budget.left(around.clock.now())))
        began = around.clock.now()
        last = await run_generation(
            plan.specs,
            generation,
            around,
            job.interrupts,
            job.patience,
            [partial(probe.failed, generation) for probe in job.probes],
        )
        now = around.clock.now()
        decision = decide(
            last,
            budget,
            now,
            uptime=now - began,
            jitter=job.random(),
            holds_all_ranks=plan.holds_all_ranks,
        )
        around.report(_generation_ended(generation, last, now - began, decision))
        if isinstance(decision, Stop):
            return _ended(generation + 1, decision, root_cause(last))
        budget = decision.budget
        await _pause(job, max(decision.delay, job.release), budget)
    raise AssertionError  # count() has no end


def refused(refusal: Refusal, generations: int = 0) -> SupervisorExited:
    """The end by a refusal: it is its own root cause."""
    sentence = printable(str(refusal))
    return _ended(generations, Stop(refusal.exit_code, sentence), sentence)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a generation consists of."""

    specs: tuple[ProcessSpec, ...]
    holds_all_ranks: bool


async def _interrupted(job: Job) -> Interrupted | _Plan:
    return Interrupted(await job.interrupts.stop())


async def _ready(job: Job, generation: int) -> Interrupted | _Plan:
    """Wait until ``generation`` may start, plan and prepare it; raises a Refusal.

    What is refused is refused here, before the generation is told to start.
    """
    await anyio.lowlevel.checkpoint()  # told to stop already? then not a word more
    report = job.around.report
    if generation == 0:
        with job.around.children.room_to_look():
            await _end_leftovers(str(job.place.state_file), report)
    await every(*(partial(probe.ready, generation) for probe in job.probes))
    found = await job.table()
    table = found.table
    node_rank, entry = find_entry(table, job.identity)
    specs = job.launcher.plan(table, Here(node_rank, entry, job.place), generation)
    report(
        RankTableReady(
            path=str(found.path),
            format=table.format.value,
            world_size=table.world_size,
            servers=table.servers,
            this_server=entry.label,
            local_ranks=tuple(device.rank for device in entry.devices),
            sha256=found.sha256,
        )
    )
    if generation == 0 and without_address(specs):
        report(Diagnostic("MASTER_ADDR", WITHOUT_ADDRESS, None))
    if table.document and table.world_size:
        await in_thread(partial(keep_copy, table, job.place.table_file))
    await prepare(specs, job.around)
    return _Plan(specs, holds_all_ranks=table.holds_all(entry))


async def _end_leftovers(place: str, report: Report) -> None:
    """End what an earlier start in this place left; raises Unavailable where it stays."""

    def tell_left(left: tuple[str, ...]) -> None:
        report(StopWaiting(left))

    swept = await sweep_leftovers(place, LEFTOVER_SECONDS, tell_left)
    if swept.killed:
        report(OrphansKilled(len(swept.killed), swept.killed, earlier_start=True))
    left = swept.left or await earlier_guardians(place, LEFTOVER_SECONDS, tell_left)
    if left:
        raise Unavailable(f"what an earlier start left behind cannot be ended: {'; '.join(left)}")


async def _pause(job: Job, seconds: float, budget: RestartBudget) -> None:
    """Back off, unless a signal to stop comes first."""
    clock = job.around.clock
    job.around.report(RestartScheduled(round(seconds, 3), budget.left(clock.now())))
    if seconds:
        await first(partial(clock.sleep, seconds), job.interrupts.stop)


def _generation_ended(
    generation: int, outcome: Outcome, seconds: float, decision: Decision
) -> GenerationEnded:
    failure = outcome.failure if isinstance(outcome, (Crashed, Interrupted)) else None
    return GenerationEnded(
        generation=generation,
        outcome=_OUTCOMES[type(outcome)],
        first_failed_rank=failure.rank if failure else None,
        duration_seconds=round(seconds, 6),
        next="stop" if isinstance(decision, Stop) else "restart",
    )


_OUTCOMES: dict[type[Outcome], str] = {
    Completed: "completed",
    NotStarted: "not_started",
    Crashed: "crashed",
    Fault: "fault",
    Interrupted: "interrupted",
}


def _ended(generations: int, stop: Stop, cause: str | None) -> SupervisorExited:
    return SupervisorExited(stop.exit_code, stop.reason, generations, cause)
