"""One life of the worker group: from its start until the first reason to end, and to the very end.

Nothing that the ranks started is left when this returns or is cancelled, except what the kernel
itself cannot end; that is described in the outcome.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import anyio
from anyio.abc import TaskGroup

from ascend_supervisor.errors import Refusal, Unavailable
from ascend_supervisor.events import OrphansKilled, StopWaiting
from ascend_supervisor.interrupts import Interrupts
from ascend_supervisor.outcome import (
    Completed,
    Crashed,
    Failure,
    Fault,
    Interrupted,
    NotStarted,
    Outcome,
)
from ascend_supervisor.plumbing.clock import Clock
from ascend_supervisor.plumbing.race import first
from ascend_supervisor.plumbing.sweep import sweep_descendants
from ascend_supervisor.plumbing.threads import in_thread
from ascend_supervisor.process import prepare_all
from ascend_supervisor.spec import ProcessSpec
from ascend_supervisor.stopping import explainable_until, explains
from ascend_supervisor.worker_group import Surroundings, WorkerGroup

LAST_WORDS_SECONDS = 5.0
"""What workers wrote to logs of their own may take so long to be mirrored, on a disk that hangs."""
TELL_SECONDS = 5.0
"""How often it is told who is still waited for."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds: ``drain`` from the first failure to TERM, ``grace`` from TERM to KILL.

    ``kill`` bounds the wait for the end of what was killed: a process inside a driver call does
    not end before the driver lets go.
    """

    drain: float
    grace: float
    kill: float = 30.0


Ending = Callable[[], Awaitable[Outcome]]
"""Waits until a generation must end, and says why."""


async def prepare(specs: Sequence[ProcessSpec], around: Surroundings) -> None:
    """Make what a generation needs: directories, files and logs; look up its commands.

    Raises a Refusal; nothing of the generation has been told then.
    """
    await in_thread(partial(prepare_all, specs, around.environ))
    for spec in specs:
        await around.logs.open(spec)


async def run_generation(
    specs: Sequence[ProcessSpec],
    generation: int,
    around: Surroundings,
    interrupts: Interrupts,
    patience: Patience,
    endings: Sequence[Ending] = (),
) -> Outcome:
    """Run what was prepared until the first reason to end; nothing is left when this returns."""

    async def interrupted() -> Outcome:
        return Interrupted(await interrupts.stop())

    group = WorkerGroup(generation, around)
    outcome: Outcome = Interrupted(signal.SIGTERM)
    left: tuple[str, ...] = ()
    try:
        async with anyio.create_task_group() as tasks:
            with interrupts.forwarding(group.send):
                try:
                    outcome = await first(lambda: _live(group, specs, tasks), interrupted, *endings)
                finally:
                    with anyio.CancelScope(shield=True):
                        left = await _WindingDown(group, interrupts, patience, around).run(outcome)
                    tasks.cancel_scope.cancel()
    finally:
        await group.last_words(LAST_WORDS_SECONDS)
        group.finish()  # only now: a pump that was just woken would read from a closed pipe
    failure = await group.told_failure()
    if isinstance(outcome, Crashed) and failure is not None:
        await _await_explanation(failure, interrupts, around.clock)
    return _final(outcome, failure, interrupts, left)


async def _live(group: WorkerGroup, specs: Sequence[ProcessSpec], tasks: TaskGroup) -> Outcome:
    try:
        await group.start(specs, tasks)
    except Unavailable as refusal:
        return Fault(str(refusal), refusal.exit_code)
    except Refusal as refusal:
        return NotStarted(refusal.exit_code, str(refusal))
    return await group.verdict()


async def _await_explanation(failure: Failure, interrupts: Interrupts, clock: Clock) -> None:
    """Wait for the signal to us that explains the failure, while there may be one."""
    until = explainable_until(failure)
    left = 0.0 if until is None else until - clock.now()
    if left > 0:
        await first(partial(clock.sleep, left), interrupts.stop)


def _final(
    outcome: Outcome, failure: Failure | None, interrupts: Interrupts, left: tuple[str, ...]
) -> Outcome:
    """The outcome with what came to light while the generation was ended."""
    stop = interrupts.stop_signal
    if stop is not None and not isinstance(outcome, Completed):
        is_explained = failure is not None and explains(stop, failure)
        return Interrupted(stop.number, None if is_explained else failure)
    if isinstance(outcome, Crashed) and failure is not None:
        return Crashed(failure, left)
    if isinstance(outcome, Fault):
        return replace(outcome, leftovers=left)
    return outcome


@dataclass(frozen=True, slots=True)
class _WindingDown:
    """Drain, TERM, grace, KILL, sweep; each step ends in the moment in which nothing is left."""

    group: WorkerGroup
    interrupts: Interrupts
    patience: Patience
    around: Surroundings

    async def run(self, outcome: Outcome) -> tuple[str, ...]:
        """End everything; gives descriptions of what could not be ended."""
        clock = self.around.clock
        drained_at = clock.now() + (self.patience.drain if isinstance(outcome, Crashed) else 0.0)
        await self._wait(self.group.ended, drained_at, self.interrupts.stop)
        if not self.group.is_empty:
            stop = self.interrupts.stop_signal
            self.group.stop_with(signal.SIGTERM if stop is None else stop.number)
            until = clock.now() + self.patience.grace
            if not self.group.has_ended:
                # Told to stop while ranks write a last checkpoint: the rest of the drain is theirs.
                until = max(until, drained_at)
            await self._wait(self.group.empty, until, self.interrupts.hurry)
        self.group.stop_with(signal.SIGKILL)
        return await self._sweep()

    async def _wait(
        self,
        end: Callable[[], Awaitable[object]],
        until: float,
        cut_short: Callable[[], Awaitable[object]],
    ) -> None:
        left = until - self.around.clock.now()
        if left > 0:
            with anyio.move_on_after(left):
                await first(end, cut_short, self._tell_remaining)

    async def _tell_remaining(self) -> None:
        while True:
            await self.around.clock.sleep(TELL_SECONDS)
            self.around.report(StopWaiting(await self.group.remaining()))

    async def _sweep(self) -> tuple[str, ...]:
        around, report = self.around, self.around.report
        swept = await sweep_descendants(
            around.children,
            around.ownership,
            self.group.known,
            self.patience.kill,
            lambda left: report(StopWaiting(left)),
        )
        started = self.group.pids
        orphans = tuple(pid for pid in swept.killed if pid not in started)
        if orphans:
            report(OrphansKilled(len(orphans), orphans, earlier_start=False))
        if swept.left:
            report(StopWaiting(swept.left))
        return swept.left
