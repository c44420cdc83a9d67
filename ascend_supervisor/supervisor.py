"""The story: join, get ready, run, settle; again, or the end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import anyio

from ascend_supervisor.coordination import Coordinator
from ascend_supervisor.errors import Refusal
from ascend_supervisor.events import (
    GenerationEnded,
    GenerationStarted,
    RankTableReady,
    Report,
    RestartScheduled,
    SupervisorExited,
)
from ascend_supervisor.interrupts import Interrupts
from ascend_supervisor.life import Life, Plan, Start
from ascend_supervisor.outcome import (
    Completed,
    Crashed,
    Ended,
    Fault,
    Interrupted,
    NotStarted,
    Outcome,
)
from ascend_supervisor.policy import Decision, Restart, Stop, stopped_by
from ascend_supervisor.probes import Probe
from ascend_supervisor.quoting import printable
from ascend_supervisor.tasks.clock import Clock
from ascend_supervisor.tasks.race import every, first
from ascend_supervisor.workers.generation import Company, Look
from ascend_supervisor.workers.root_cause import failure_text, root_cause

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Job:
    """What is supervised, and what with.

    ``sweep`` ends what an earlier start has left. ``plan`` is pure. ``prepare`` makes ready what
    the processes of a plan need, and starts none. These three may raise a Refusal. ``release`` is
    how many seconds the devices need after the last process.
    """

    coordinator: Coordinator
    probes: Sequence[Probe]
    sweep: Callable[[], Awaitable[None]]
    plan: Callable[[Start], Plan]
    prepare: Callable[[Plan], Awaitable[Plan]]
    run: Callable[[Life, Company], Awaitable[Ended]]
    look: Look
    release: float
    interrupts: Interrupts
    clock: Clock
    report: Report


async def supervise(job: Job) -> SupervisorExited:
    """Run the job to its end, and give the event that tells it.

    Nothing that was started is left, whatever the end is. A Refusal is an end like any other.
    """
    ended: Ended | None = None
    generations = 0
    try:
        async with job.coordinator as servers:
            await _or_stopped(job, job.sweep)
            while True:
                plan = await _or_stopped(job, partial(_get_ready, job, servers))
                if isinstance(plan, Stop):
                    return _exited(plan, generations, ended)
                generations = plan.start.generation + 1
                decision, ended = await _generation(job, servers, plan)
                if isinstance(decision, Stop):
                    return _exited(decision, generations, ended)
                await _back_off(job, decision)
    except Refusal as refusal:
        return refused(refusal, generations)


def refused(refusal: Refusal, generations: int = 0) -> SupervisorExited:
    """The end by a refusal: it is its own root cause."""
    sentence = printable(str(refusal))
    return SupervisorExited(refusal.exit_code, sentence, generations, sentence)


async def _or_stopped(job: Job, act: Callable[[], Awaitable[T]]) -> T | Stop:
    """What ``act`` gives, unless we are told to stop before that."""

    async def stopped() -> Stop:
        return stopped_by(await job.interrupts.stop())

    return await first(stopped, act)


async def _get_ready(job: Job, servers: Coordinator) -> Plan | Stop:
    """Wait until a generation may start, and plan it; raises a Refusal."""
    await anyio.lowlevel.checkpoint()  # told to stop already? then not a word more
    while True:
        await every(*(probe.released for probe in job.probes))
        start = await servers.gather()
        if isinstance(start, Stop):
            return start
        plan = job.plan(start)
        await every(*(partial(probe.ready, plan) for probe in job.probes))
        if await servers.still(start):
            plan = await job.prepare(plan)
            job.report(_rank_table_ready(start))
            return plan


async def _generation(job: Job, servers: Coordinator, plan: Plan) -> tuple[Decision, Ended]:
    start = plan.start
    job.report(GenerationStarted(start.generation, start.restarts_left))
    began = job.clock.now()
    life = Life(plan)
    endings = [
        partial(servers.must_end, start),
        *(partial(probe.must_end, life) for probe in job.probes),
    ]
    ended = await job.run(life, Company(endings, partial(servers.announce, start), job.look))
    seconds = job.clock.now() - began
    # In this order: what the job has come to already stands, also where a signal comes now.
    decision: Decision = await first(partial(servers.settle, start, ended), partial(_stop, job))
    job.report(_generation_ended(start.generation, ended, seconds, decision))
    return decision, ended


async def _stop(job: Job) -> Decision:
    return stopped_by(await job.interrupts.stop())


async def _back_off(job: Job, restart: Restart) -> None:
    """Wait before the next generation, unless a signal to stop comes first."""
    seconds = max(restart.delay, job.release)
    left = restart.budget.left(job.clock.now())
    job.report(RestartScheduled(round(seconds, 3), left))
    if seconds:
        await first(partial(job.clock.sleep, seconds), job.interrupts.stop)


def _rank_table_ready(start: Start) -> RankTableReady:
    found, table = start.found, start.found.table
    return RankTableReady(
        path=str(found.path),
        format=table.format.value,
        world_size=table.world_size,
        servers=table.servers,
        this_server=start.entry.label,
        local_ranks=start.local_ranks,
        sha256=found.sha256,
    )


def _generation_ended(
    generation: int, ended: Ended, seconds: float, decision: Decision
) -> GenerationEnded:
    outcome = ended.decisive
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


def _exited(stop: Stop, generations: int, ended: Ended | None) -> SupervisorExited:
    if stop.cause is not None:
        cause: str | None = failure_text(stop.cause)
    else:
        cause = None if ended is None else root_cause(ended)
    return SupervisorExited(stop.exit_code, stop.reason, generations, cause)
