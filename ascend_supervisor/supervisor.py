"""The story: join, get ready, run, settle; then a restart or the end, with its exit code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

import anyio
from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.causes.diagnosis import Language
from ascend_supervisor.coordination import Coordinator
from ascend_supervisor.errors import HANG, Refusal
from ascend_supervisor.events import Report
from ascend_supervisor.events.generations import (
    GenerationEnded,
    GenerationStarted,
    RestartsBarred,
    RestartScheduled,
)
from ascend_supervisor.events.leftovers import WaitEnded
from ascend_supervisor.events.rank_table import RankTableReady
from ascend_supervisor.events.supervisor import SupervisorExited
from ascend_supervisor.life import Life, Plan, Start
from ascend_supervisor.outcome import (
    Completed,
    Crashed,
    Ended,
    Failure,
    Fault,
    Interrupted,
    NotStarted,
    Outcome,
)
from ascend_supervisor.probes import Probe
from ascend_supervisor.restart_policy import ClusterRestarts, Decision, Restart, Stop, stopped_by
from ascend_supervisor.stop_requests import Interrupts
from ascend_supervisor.tasks.clock import Clock
from ascend_supervisor.tasks.race import beside, every, first
from ascend_supervisor.untrusted_text import printable
from ascend_supervisor.workers.generation import Company, LastLook, Run
from ascend_supervisor.workers.root_cause import (
    cause_first,
    cause_in_short,
    diagnosis,
    doubt,
    failure_text,
    headline,
    root_cause,
)


class End(Struct, frozen=True):
    """The end: its event, and ``refusal``, a sentence, if the root cause is not a failed process.

    The sentence also goes to stderr, for people who do not read events. ``is_retryable``: a
    controller may try again. ``start`` is that of the last generation, None if there was none.
    """

    event: SupervisorExited
    refusal: str | None = None
    is_retryable: bool = False
    start: Start | None = None

    def with_retryable_code(self, code: int | None) -> End:
        """The same end with the exit ``code`` of --retryable-exit-code, if it is retryable."""
        own = self.event.exit_code
        if code is None or code == own or not self.is_retryable:
            return self
        return replace(self, event=replace(self.event, exit_code=code, own_exit_code=own))

    def told_in(self, language: Language) -> End:
        """The same end, in which the cause is explained, unless its own words do that."""
        event = self.event
        known = event.diagnosis
        if known is None:
            return self
        is_told = known.text in event.reason and known.remedy in event.reason
        if is_told and language == "en":
            return self
        return replace(self, event=replace(event, explained=known.told(language)))


def refused(refusal: Refusal, generations: int = 0) -> End:
    """The end by a refusal: it is its own root cause."""
    sentence = printable(str(refusal))
    event = SupervisorExited(refusal.exit_code, sentence, generations, sentence)
    return End(event, sentence, refusal.is_retryable)


OF_HANGS = "if the ranks were only slow, raise the limit; if not, look where they wait"


def exit_by(stop: Stop, generations: int, ended: Ended | None, start: Start | None) -> End:
    """The end by a decision; ``ended`` and ``start`` are those of the last generation."""
    cause = stop.cause or (None if ended is None else root_cause(ended))
    text = _in_full(cause, stop.server)
    reason = cause_first(cause, stop.reason)
    if stop.exit_code == HANG and isinstance(cause, str):
        reason = f"{reason}; {OF_HANGS}"
    doubted = "" if stop.exit_code or ended is None else doubt(ended)
    if doubted:
        reason = f"{reason}, but {doubted}"
    event = SupervisorExited(
        stop.exit_code,
        reason,
        generations,
        text,
        peers_server=stop.server,
        diagnosis=diagnosis(cause, ended) if stop.exit_code else None,
        doubt=doubted or None,
    )
    is_told = isinstance(cause, Failure) or not stop.exit_code
    return End(event, None if is_told else text, stop.is_retryable, start)


def _in_full(cause: Failure | str | None, server: int | None) -> str | None:
    """With the last lines of a rank that failed."""
    return failure_text(cause, server) if isinstance(cause, Failure) else cause


T = TypeVar("T")


class Job(Struct, frozen=True):
    """The job, and the parts that run it.

    ``sweep`` ends processes of an earlier start. ``plan`` is pure. ``prepare`` makes everything
    that the processes of a plan need, and starts none. These three may raise a Refusal.
    ``release`` is how many seconds the devices need after the last process.
    """

    coordinator: Coordinator
    probes: Sequence[Probe]
    sweep: Callable[[], Awaitable[None]]
    plan: Callable[[Start], Plan]
    prepare: Callable[[Plan], Awaitable[Plan]]
    run: Run
    look: LastLook
    release: float
    interrupts: Interrupts
    clock: Clock
    report: Report


class Broken(Exception):
    """The job has ended by an ``error`` that nobody expected, after so many ``generations``."""

    def __init__(self, error: Exception, generations: int) -> None:
        super().__init__(error)
        self.error = error
        self.generations = generations


async def supervise(job: Job) -> End:
    """Run the job to its end.

    No process is left, whatever the end is. A Refusal is an end like any other;
    raises Broken from any other exception.
    """
    ended: Ended | None = None
    start: Start | None = None
    generations = 0
    try:
        async with job.coordinator.joined(), beside(*(probe.keep for probe in job.probes)):
            await _or_stopped(job, job.sweep)
            while True:
                plan = await _or_stopped(job, partial(_get_ready, job))
                if isinstance(plan, Stop):
                    return exit_by(plan, generations, ended, start)
                start = plan.start
                generations = start.generation + 1
                decision, ended = await _generation(job, plan)
                if isinstance(decision, Stop):
                    return exit_by(decision, generations, ended, start)
                await _back_off(job, decision, ended)
    except Refusal as refusal:
        return replace(refused(refusal, generations), start=start)
    except Exception as error:
        raise Broken(error, generations) from error


async def _or_stopped(job: Job, act: Callable[[], Awaitable[T]]) -> T | Stop:
    """The result of ``act``, unless we are told to stop first."""

    async def stopped() -> Stop:
        return stopped_by(await job.interrupts.stop())

    return await first(stopped, act)


async def _get_ready(job: Job) -> Plan | Stop:
    """Wait until a generation may start, and plan it; raises a Refusal."""
    await anyio.lowlevel.checkpoint()  # if told to stop already, do nothing more
    while True:
        await every(*(probe.released for probe in job.probes))
        start = await job.coordinator.gather()
        if isinstance(start, Stop):
            return start
        plan = job.plan(start)
        await every(*(partial(probe.ready, plan) for probe in job.probes))
        if await job.coordinator.still(start):
            plan = await job.prepare(plan)
            job.report(_rank_table_ready(start))
            if start.bar is not None and not start.generation:
                job.report(RestartsBarred(start.bar.reason, start.bar.remedy))
            return plan


async def _generation(job: Job, plan: Plan) -> tuple[Decision, Ended]:
    start, servers = plan.start, job.coordinator
    counted = _by_cluster(start.cluster)
    job.report(GenerationStarted(start.generation, start.restarts_left, *counted))
    began = job.clock.elapsed()
    life = Life(plan)
    endings = [
        partial(servers.must_end, start),
        *(partial(probe.must_end, life) for probe in job.probes),
    ]
    ended = await job.run(life, Company(endings, partial(servers.announce, start), job.look))
    seconds = job.clock.elapsed() - began
    # In this order: the outcome is settled already, even if a signal comes now.
    decision: Decision = await first(partial(servers.settle, start, ended), partial(_stop, job))
    job.report(_generation_ended(start.generation, ended, seconds, decision))
    return decision, ended


async def _stop(job: Job) -> Decision:
    return stopped_by(await job.interrupts.stop())


async def _back_off(job: Job, restart: Restart, ended: Ended) -> None:
    """Wait before the next generation, unless a signal to stop comes first."""
    cause = restart.cause or cause_in_short(ended)
    known = diagnosis(root_cause(ended), ended)
    if restart.cause and known is not None and known.is_consequence:
        known = None  # that cause is on another server
    seconds = max(restart.delay, job.release)
    left = restart.budget.left(job.clock.now())
    counted = _by_cluster(restart.cluster)
    told = RestartScheduled(round(seconds, 3), left, cause, restart.is_free, *counted)
    text = _in_full(restart.failure or restart.cause or root_cause(ended), restart.server)
    job.report(replace(told, peers_server=restart.server, diagnosis=known, root_cause=text))
    if not seconds:
        return
    began = job.clock.elapsed()
    try:
        await first(partial(job.clock.sleep, seconds), job.interrupts.stop)
    finally:
        job.report(WaitEnded(round(job.clock.elapsed() - began, 3)))


def _by_cluster(restarts: ClusterRestarts | None) -> tuple[int | None, int | None]:
    return (None, None) if restarts is None else (restarts.used, restarts.limit)


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
        warnings=table.warnings,
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
        cause=headline(outcome.reason) if isinstance(outcome, Fault) else "",
        step=ended.reached.step,
        steps_lost=None if isinstance(outcome, Completed) else ended.reached.lost,
        no_progress=_no_progress(decision),
        diagnosis=diagnosis(root_cause(ended), ended),
        drain_seconds=round(ended.drain, 3),
        grace_seconds=round(ended.grace, 3),
    )


def _no_progress(decision: Decision) -> tuple[int, ...] | None:
    stuck = decision.stuck if isinstance(decision, Stop) else decision.budget.stuck
    return None if stuck is None else tuple(step or 0 for step in stuck)


_OUTCOMES: dict[type[Outcome], str] = {
    Completed: "completed",
    NotStarted: "not_started",
    Crashed: "crashed",
    Fault: "fault",
    Interrupted: "interrupted",
}
