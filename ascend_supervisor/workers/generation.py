"""One life of the worker group: from its start to the first reason to end, and its shutdown.

Nothing that the ranks started is left when this returns or is cancelled, except processes that even
the kernel cannot end; the result describes these.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.errors import UNAVAILABLE, Refusal, Unavailable
from ascend_supervisor.events import Report
from ascend_supervisor.life import Life, Plan
from ascend_supervisor.outcome import (
    Completed,
    Crashed,
    Ended,
    Failure,
    Fault,
    Interrupted,
    NotStarted,
    Outcome,
    Patience,
    StopSignal,
)
from ascend_supervisor.received_signals import Interrupts
from ascend_supervisor.reporters.python_warnings import defect
from ascend_supervisor.signal_meaning import explainable_until, explains
from ascend_supervisor.tasks.clock import Clock, seldom_looks
from ascend_supervisor.tasks.race import first
from ascend_supervisor.workers.faults import Ending, Faults
from ascend_supervisor.workers.group import WorkerGroup
from ascend_supervisor.workers.runtime import Runtime
from ascend_supervisor.workers.shutdown import Shutdown

LAST_WORDS_SECONDS = 5.0
"""How long the mirroring of workers' own logs may take at the end, if a disk hangs."""
ANNOUNCE_SECONDS = 1.0
LOOK_SECONDS = 20.0

Announce = Callable[[Outcome, float], Awaitable[None]]
"""Tells others how this generation ends, and how many seconds it ran."""
Look = Callable[[Life], Awaitable[str]]
"""Inspects the processes before they are told to stop; says what was seen, in half a sentence."""


class Company(Struct, frozen=True):
    """The other parts of a generation, besides its processes.

    ``endings`` are asked whether it must end. ``announce`` is called before the first signal to its
    processes, and may take ANNOUNCE_SECONDS. ``look`` is called before TERM, if a fault asks for a
    last look, and may take LOOK_SECONDS; what it saw is added to the reason of the fault.
    Exceptions of these two are reported, and change nothing.
    """

    endings: Sequence[Ending]
    announce: Announce
    look: Look


async def run_generation(
    life: Life,
    runtime: Runtime,
    interrupts: Interrupts,
    patience: Patience,
    company: Company,
) -> Ended:
    """Run the prepared plan until the first reason to end; nothing is left when this returns."""

    async def interrupted() -> Outcome:
        return Interrupted(await interrupts.stop())

    seen = ""

    async def look() -> None:
        nonlocal seen
        seen = await company.look(life)

    group = WorkerGroup(life, runtime, interrupts.explain)
    faults = Faults(company.endings, runtime.clock)
    shutdown = Shutdown(group, interrupts, faults, patience, runtime)
    began = runtime.clock.now()
    outcome: Outcome = Interrupted(StopSignal(signal.SIGTERM, began))
    left: tuple[str, ...] = ()
    uptime = 0.0
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(faults.listen)
            with interrupts.forwarding(group.send):
                try:
                    live = partial(_live, group, life.plan, tasks)
                    with seldom_looks():
                        outcome = await first(live, interrupted, faults.first)
                finally:
                    life.is_ending = True
                    with anyio.CancelScope(shield=True):
                        uptime = runtime.clock.now() - began
                        announce = partial(company.announce, outcome, uptime)
                        await _bounded(announce, ANNOUNCE_SECONDS, runtime.report)
                        left = await shutdown.run(
                            outcome, partial(_bounded, look, LOOK_SECONDS, runtime.report)
                        )
                    tasks.cancel_scope.cancel()
    finally:
        await group.last_words(LAST_WORDS_SECONDS)
        group.finish()  # only now: a pump that was just woken would read from a closed pipe
    faults.check()
    failure = await group.failure()
    stop = await interrupts.stop_within(_patience(outcome, failure, runtime.clock))
    looked = _with_look(outcome, seen)
    final = _final(looked, failure, stop)
    later = tuple(fault for fault in faults.told if fault is not outcome)
    if isinstance(looked, Fault) and looked is not final:
        later = (looked, *later)  # we were told to stop while it was being ended
    return Ended(final, uptime, later, left)


async def _live(group: WorkerGroup, plan: Plan, tasks: TaskGroup) -> Outcome:
    if plan.lacking is not None:
        return Fault(plan.lacking, UNAVAILABLE)
    try:
        await group.start(tasks)
    except Unavailable as refusal:
        return Fault(str(refusal), refusal.exit_code)
    except Refusal as refusal:
        return NotStarted(refusal.exit_code, str(refusal))
    return await group.verdict()


async def _bounded(act: Callable[[], Awaitable[None]], seconds: float, report: Report) -> None:
    """Run ``act`` for at most ``seconds``; its exceptions do not keep processes alive."""
    try:
        with anyio.move_on_after(seconds):
            await act()
    except Exception as error:  # noqa: BLE001
        report(defect(error))


def _with_look(outcome: Outcome, seen: str) -> Outcome:
    if seen and isinstance(outcome, Fault):
        return replace(outcome, reason=f"{outcome.reason}; {seen}")
    return outcome


def _patience(outcome: Outcome, failure: Failure | None, clock: Clock) -> float:
    """For how many more seconds a signal to us could explain the failure."""
    until = explainable_until(failure) if failure and isinstance(outcome, Crashed) else None
    return 0.0 if until is None else until - clock.now()


def _final(outcome: Outcome, failure: Failure | None, stop: StopSignal | None) -> Outcome:
    """The outcome with what became known while the generation was being ended."""
    if stop is not None and not isinstance(outcome, Completed):
        is_explained = failure is not None and explains(stop, failure)
        return Interrupted(stop, None if is_explained else failure)
    if isinstance(outcome, Crashed) and failure is not None:
        return Crashed(failure)
    return outcome
