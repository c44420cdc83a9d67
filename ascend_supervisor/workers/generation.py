"""One life of the worker group: from its start to the first reason to end, and its shutdown.

Nothing that the ranks started is left when this returns or is cancelled, except processes that even
the kernel cannot end; the result describes these, and what became known meanwhile.
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
from ascend_supervisor.events.supervisor import defect
from ascend_supervisor.life import Life
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
from ascend_supervisor.stop_requests import Interrupts
from ascend_supervisor.tasks.clock import seldom_looks
from ascend_supervisor.tasks.race import first
from ascend_supervisor.workers.faults import Ending, Faults
from ascend_supervisor.workers.group import WorkerGroup
from ascend_supervisor.workers.runtime import Runtime
from ascend_supervisor.workers.shutdown import Shutdown


def explainable_seconds(outcome: Outcome, failure: Failure | None, now: float) -> float:
    """For how many more seconds a signal to us could explain the failure."""
    until = failure.explainable_until if failure and isinstance(outcome, Crashed) else None
    return 0.0 if until is None else until - now


def concluded(
    ended: Ended,
    seen: str,
    failure: Failure | None,
    stop: StopSignal | None,
    told: Sequence[Fault],
) -> Ended:
    """What ``ended`` becomes with what the last look has ``seen``, and all faults that were told.

    ``failure`` is the first failure of a rank, ``stop`` a signal to us that asked for the end.
    """
    looked = _with_look(ended.outcome, seen)
    final = _final(looked, failure, stop)
    later = tuple(fault for fault in told if fault is not ended.outcome)
    if isinstance(looked, Fault) and looked is not final:
        later = (looked, *later)  # we were told to stop while it was being ended
    return replace(ended, outcome=final, faults=later)


def _with_look(outcome: Outcome, seen: str) -> Outcome:
    if seen and isinstance(outcome, Fault):
        return replace(outcome, reason=f"{outcome.reason}; {seen}")
    return outcome


def _final(outcome: Outcome, failure: Failure | None, stop: StopSignal | None) -> Outcome:
    if stop is not None and not isinstance(outcome, Completed):
        is_explained = failure is not None and stop.explains(failure)
        return Interrupted(stop, None if is_explained else failure)
    if isinstance(outcome, Crashed) and failure is not None:
        return Crashed(failure)
    return outcome


LAST_WORDS_SECONDS = 5.0
"""How long the mirroring of workers' own logs may take at the end, if a disk hangs."""
ANNOUNCE_SECONDS = 1.0
LOOK_SECONDS = 20.0

Announce = Callable[[Outcome, float], Awaitable[None]]
"""Tells others how this generation ends, and how many seconds it ran."""
LastLook = Callable[[Life], Awaitable[str]]
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
    look: LastLook


Run = Callable[[Life, Company], Awaitable[Ended]]
"""Runs a generation to its end."""


async def run_generation(
    life: Life,
    runtime: Runtime,
    interrupts: Interrupts,
    patience: Patience,
    company: Company,
) -> Ended:
    """Run the prepared plan until the first reason to end; nothing is left when this returns."""
    return await _Generation(life, runtime, interrupts, patience, company).run()


class _Generation:
    def __init__(
        self,
        life: Life,
        runtime: Runtime,
        interrupts: Interrupts,
        patience: Patience,
        company: Company,
    ) -> None:
        self._life = life
        self._clock = runtime.clock
        self._report = runtime.report
        self._standbys = runtime.standbys
        self._interrupts = interrupts
        self._company = company
        self._group = WorkerGroup(life, runtime, interrupts.stop_so_far)
        self._faults = Faults(company.endings, runtime.clock)
        self._shutdown = Shutdown(self._group, interrupts, self._faults, patience, runtime)
        self._began = runtime.clock.now()
        self._seen = ""
        """What the last look has seen."""

    async def run(self) -> Ended:
        ended = Ended(Interrupted(StopSignal(signal.SIGTERM, self._began)), 0.0)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._faults.listen)
                with self._interrupts.forwarding(self._group.send):
                    outcome = ended.outcome  # that of a cancelled generation
                    try:
                        outcome = await self._first_reason(tasks)
                    finally:
                        with anyio.CancelScope(shield=True):
                            ended = await self._end(outcome)
                        tasks.cancel_scope.cancel()
        finally:
            await self._group.last_words(LAST_WORDS_SECONDS)
            self._group.finish()  # only now: a pump just woken would read from a closed pipe
        self._faults.check()
        if isinstance(ended.outcome, Completed):
            ended = replace(ended, unheeded=self._group.unheeded)
        failure = await self._group.failure()
        seconds = explainable_seconds(ended.outcome, failure, self._clock.now())
        stop = await self._interrupts.stop_within(seconds)
        seen = "; ".join(filter(None, (self._seen, self._group.nested)))
        return concluded(ended, seen, failure, stop, self._faults.told)

    async def _first_reason(self, tasks: TaskGroup) -> Outcome:
        """The first reason to end; the processes run, and are followed, in ``tasks``."""
        with seldom_looks():
            live = partial(self._live, tasks)
            return await first(live, self._interrupted, self._faults.first)

    async def _live(self, tasks: TaskGroup) -> Outcome:
        if (lacking := self._life.plan.lacking) is not None:
            return Fault(lacking, UNAVAILABLE, is_of_server=True)
        try:
            await self._group.start(tasks)
        except Unavailable as refusal:
            return Fault(str(refusal), refusal.exit_code, is_of_server=True)
        except Refusal as refusal:
            return NotStarted(refusal.exit_code, str(refusal), refusal.is_of_server)
        return await self._group.verdict()

    async def _interrupted(self) -> Outcome:
        return Interrupted(await self._interrupts.stop())

    async def _end(self, outcome: Outcome) -> Ended:
        """Announce the end, then end all processes."""
        self._life.is_ending = True
        reason_at = self._clock.elapsed()
        if self._standbys is not None and not isinstance(outcome, Crashed | Fault):
            self._standbys.dismiss()  # no restart follows
        uptime = self._clock.now() - self._began
        announce = partial(self._company.announce, outcome, uptime)
        await _bounded(announce, ANNOUNCE_SECONDS, self._report)
        if isinstance(outcome, Fault):
            self._group.look_for_nested_ranks()
        look = partial(_bounded, self._look, LOOK_SECONDS, self._report)
        swept = await self._shutdown.run(outcome, look)
        over_at = self._clock.elapsed()
        told_at = over_at if self._shutdown.told_at is None else self._shutdown.told_at
        ended = Ended(outcome, uptime, left=swept.left, are_stuck=swept.are_stuck)
        ended = replace(ended, success=self._group.success)
        return replace(ended, drain=told_at - reason_at, grace=over_at - told_at)

    async def _look(self) -> None:
        self._seen = await self._company.look(self._life)


async def _bounded(act: Callable[[], Awaitable[None]], seconds: float, report: Report) -> None:
    """Run ``act`` for at most ``seconds``; its exceptions do not keep processes alive."""
    try:
        with anyio.move_on_after(seconds):
            await act()
    except Exception as error:  # noqa: BLE001
        report(defect(error))
