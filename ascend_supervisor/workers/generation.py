"""One life of the worker group: from its start until the first reason to end, and to the very end.

Nothing that the ranks started is left when this returns or is cancelled, except what the kernel
itself cannot end; that is described in what it returns.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

import anyio
from anyio.abc import TaskGroup

from ascend_supervisor.errors import Refusal, Unavailable
from ascend_supervisor.events import Report
from ascend_supervisor.interrupts import Interrupts
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
)
from ascend_supervisor.reporters.python_warnings import defect
from ascend_supervisor.stopping import explainable_until, explains
from ascend_supervisor.tasks.clock import Clock
from ascend_supervisor.tasks.race import first
from ascend_supervisor.workers.endings import Ending, Faults
from ascend_supervisor.workers.group import WorkerGroup
from ascend_supervisor.workers.runtime import Runtime
from ascend_supervisor.workers.shutdown import Shutdown

LAST_WORDS_SECONDS = 5.0
"""What workers wrote to logs of their own may take so long to be mirrored, on a disk that hangs."""
ANNOUNCE_SECONDS = 1.0
LOOK_SECONDS = 5.0

Announce = Callable[[Outcome, float], Awaitable[None]]
"""Tells others how this generation ends, and how many seconds it ran."""
Look = Callable[[Life], Awaitable[None]]
"""Looks at the processes before they are told to stop."""


@dataclass(frozen=True, slots=True)
class Company:
    """What goes along with a generation, besides its processes.

    ``endings`` are asked whether it must end. ``announce`` is called before the first signal goes
    to a process of it, and given ANNOUNCE_SECONDS; ``look`` before TERM, where a fault asks for a
    last look, and given LOOK_SECONDS. What these two raise is told, and changes nothing.
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
    """Run what was prepared until the first reason to end; nothing is left when this returns."""

    async def interrupted() -> Outcome:
        return Interrupted(await interrupts.stop())

    group = WorkerGroup(life, runtime)
    faults = Faults(company.endings, runtime.clock)
    shutdown = Shutdown(group, interrupts, faults, patience, runtime)
    outcome: Outcome = Interrupted(signal.SIGTERM)
    left: tuple[str, ...] = ()
    uptime = 0.0
    began = runtime.clock.now()
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(faults.listen)
            with interrupts.forwarding(group.send):
                try:
                    live = partial(_live, group, life.plan, tasks)
                    outcome = await first(live, interrupted, faults.first)
                finally:
                    with anyio.CancelScope(shield=True):
                        uptime = runtime.clock.now() - began
                        announce = partial(company.announce, outcome, uptime)
                        await _bounded(announce, ANNOUNCE_SECONDS, runtime.report)
                        look = partial(company.look, life)
                        left = await shutdown.run(
                            outcome, partial(_bounded, look, LOOK_SECONDS, runtime.report)
                        )
                    tasks.cancel_scope.cancel()
    finally:
        await group.last_words(LAST_WORDS_SECONDS)
        group.finish()  # only now: a pump that was just woken would read from a closed pipe
    faults.check()
    failure = await group.told_failure()
    if isinstance(outcome, Crashed) and failure is not None:
        await _await_explanation(failure, interrupts, runtime.clock)
    later = tuple(fault for fault in faults.told if fault is not outcome)
    return Ended(_final(outcome, failure, interrupts), uptime, later, left)


async def _live(group: WorkerGroup, plan: Plan, tasks: TaskGroup) -> Outcome:
    if plan.lacking is not None:
        return Fault(str(plan.lacking), plan.lacking.exit_code)
    try:
        await group.start(plan.specs, tasks)
    except Unavailable as refusal:
        return Fault(str(refusal), refusal.exit_code)
    except Refusal as refusal:
        return NotStarted(refusal.exit_code, str(refusal))
    return await group.verdict()


async def _bounded(act: Callable[[], Awaitable[None]], seconds: float, report: Report) -> None:
    """Let others act for so long; a defect of theirs keeps no process alive."""
    try:
        with anyio.move_on_after(seconds):
            await act()
    except Exception as error:  # noqa: BLE001
        report(defect(error))


async def _await_explanation(failure: Failure, interrupts: Interrupts, clock: Clock) -> None:
    """Wait for the signal to us that explains the failure, while there may be one."""
    until = explainable_until(failure)
    left = 0.0 if until is None else until - clock.now()
    if left > 0:
        await first(partial(clock.sleep, left), interrupts.stop)


def _final(outcome: Outcome, failure: Failure | None, interrupts: Interrupts) -> Outcome:
    """The outcome with what came to light while the generation was ended."""
    stop = interrupts.stop_signal
    if stop is not None and not isinstance(outcome, Completed):
        is_explained = failure is not None and explains(stop, failure)
        return Interrupted(stop.number, None if is_explained else failure)
    if isinstance(outcome, Crashed) and failure is not None:
        return Crashed(failure)
    return outcome
