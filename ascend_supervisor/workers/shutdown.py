"""How a generation is ended: drain, last look, TERM, grace, KILL, sweep."""

from __future__ import annotations

import re
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from math import inf
from typing import NoReturn

import anyio
from msgspec.structs import replace

from ascend_supervisor.events.leftovers import (
    GraceEnded,
    OrphansKilled,
    StopWaiting,
    WaitEnded,
    wait_ended,
)
from ascend_supervisor.events.supervisor import Diagnostic
from ascend_supervisor.outcome import Completed, Crashed, Fault, Outcome, Patience
from ascend_supervisor.phrases import counted, more
from ascend_supervisor.processes.left import Left
from ascend_supervisor.processes.proc import is_alive
from ascend_supervisor.processes.sweep import Swept, sweep_descendants
from ascend_supervisor.stop_requests import Interrupts
from ascend_supervisor.tasks.long_wait import STOP, LongWait
from ascend_supervisor.tasks.race import first
from ascend_supervisor.workers.faults import Faults
from ascend_supervisor.workers.group import WorkerGroup
from ascend_supervisor.workers.runtime import Runtime

DESCRIBED_SECONDS = 1.0
"""How long the description of what is killed may take."""
START_SECONDS = 10.0
MOST_ALIKE_SECONDS = 1.0
"""For the other ranks to fail as the first one did, at the start."""
HEAD_START = 0.5
"""The part of the grace in which a process may end its own children, before we tell them."""
DEATH_SECONDS = 1.0
"""How long ranks may take to end after SIGKILL before the rest is swept."""
COMPLAINT_LINES = 20
_COMPLAINT = re.compile(r"error|exception|no such|not found|cannot|can't", re.IGNORECASE)
"""Words of a rank that says why it ended; without one there is nothing to compare."""
MOST_TOLD = 5
"""How many of the processes that a command has left are described."""


class Shutdown:
    """Each step ends as soon as nothing is left to wait for.

    A fault that comes meanwhile, with its own patience, may shorten a step but never prolong it.
    An operator who names a grace decides how long the ranks have from then on.
    """

    def __init__(
        self,
        group: WorkerGroup,
        interrupts: Interrupts,
        faults: Faults,
        patience: Patience,
        runtime: Runtime,
    ) -> None:
        self._group = group
        self._interrupts = interrupts
        self._faults = faults
        self._patience = patience
        self._runtime = runtime
        self._until = 0.0
        self.told_at: float | None = None
        """When the ranks were told to stop (seconds of ``Clock.elapsed``)."""

    async def run(self, outcome: Outcome, look: Callable[[], Awaitable[None]]) -> Swept:
        """End everything; what is returned tells of processes that could not be ended.

        ``look`` is awaited before TERM if a fault asks for a last look.
        """
        patience = _patience_for(outcome, self._patience)
        if _may_be_alike(outcome):
            await self._hear_the_others()
        self._until = self._now + patience.drain
        await self._wait(self._group.ended, self._interrupts.stop, _drain, "SIGTERM")
        if not self._group.is_empty:
            if isinstance(outcome, Completed):
                await self._tell_left_by_command()
            if any(fault.last_look for fault in self._faults.told):
                self._group.tell_failure()
                await look()
            stop = await self._interrupts.stop_within(0)
            number = signal.SIGTERM if stop is None else stop.number
            self.told_at = began = self._runtime.clock.elapsed()
            self._until = self._end_of_grace(patience.grace)
            self._group.stop_with(number, (self._until - self._now) * HEAD_START)
            await self._wait(self._group_is_empty, self._interrupts.hurry, _grace, "SIGKILL")
            await self._kill(self._runtime.clock.elapsed() - began)
        else:
            await self._group.kill(DEATH_SECONDS)
        return await self._sweep(patience.kill)

    async def _hear_the_others(self) -> None:
        """Let ranks that fail alike, such as of an import, say so before they are told to stop."""
        with anyio.move_on_after(MOST_ALIKE_SECONDS):
            await first(self._group.silent, self._interrupts.stop)

    async def _kill(self, seconds: float) -> None:
        """Kill what is left after a grace of so many ``seconds``, and say who that was."""
        option = self._option_for_more
        remaining: dict[int, str] = {}
        with anyio.move_on_after(DESCRIBED_SECONDS):
            remaining = {} if self._group.is_empty else await self._group.remaining()
        with suppress(OSError), self._runtime.children.spare_descriptor():
            remaining = {pid: text for pid, text in remaining.items() if is_alive(pid)}
        await self._group.kill(DEATH_SECONDS)
        killed = [text for pid, text in remaining.items() if not self._group.ended_by_itself(pid)]
        if killed:
            self._runtime.report(GraceEnded(tuple(killed), round(seconds, 3), option))

    @property
    def _option_for_more(self) -> str | None:
        """The option whose grace has passed; None if it was another's, or was cut short."""
        is_ours = self._interrupts.grace is None and not any(
            fault.patience for fault in self._faults.told
        )
        return "--grace" if is_ours and self._now >= self._until else None

    async def _group_is_empty(self) -> None:
        """Return when nothing is left; the ranks that are hurried are killed meanwhile."""
        await first(self._group.empty, self._hurry_ranks)

    async def _hurry_ranks(self) -> NoReturn:
        known = 0
        async with anyio.create_task_group() as tasks:
            while True:
                for fault in self._faults.told[known:]:
                    known += 1
                    if fault.patience is not None and fault.patience.hurried:
                        tasks.start_soon(self._kill_ranks, fault.patience)
                await self._faults.more_than(known)
        raise AssertionError

    async def _kill_ranks(self, patience: Patience) -> None:
        await self._runtime.clock.sleep(patience.hurried_grace)
        self._group.kill_ranks(patience.hurried)

    def _end_of_grace(self, usual: float) -> float:
        """When the ranks, which have just been told to stop, are killed."""
        asked = self._interrupts.grace
        told = min(map(_grace, self._faults.told), default=inf)
        until = self._now + min(told, usual if asked is None else asked)
        if asked is None and not self._group.has_ended:
            # Told to stop during a last checkpoint: the ranks keep the rest of the drain.
            return max(until, self._until)
        return until

    @property
    def _now(self) -> float:
        return self._runtime.clock.now()

    async def _wait(
        self,
        end: Callable[[], Awaitable[object]],
        cut_short: Callable[[], Awaitable[object]],
        seconds_of: Callable[[Fault], float],
        then: str,
    ) -> None:
        """Wait until ``_until``, which a fault (``seconds_of``) or an operator can move.

        ``then`` is the signal that follows.
        """

        def wait_until(moment: float) -> None:
            self._until = moment
            scope.deadline = anyio.current_time() + moment - self._now

        async def hear_of_faults() -> NoReturn:
            known = 0
            while True:
                for fault in self._faults.told[known:]:
                    known += 1
                    wait_until(min(self._until, self._now + seconds_of(fault)))
                await self._faults.more_than(known)

        async def hear_of_operators() -> NoReturn:
            while True:
                grace = await self._interrupts.next_grace()
                wait_until(self._now + grace)

        left = self._until - self._now
        if left > 0:
            self._group.tell_failure()
            with anyio.move_on_after(left) as scope:
                tell = partial(self._tell_remaining, then)
                await first(end, cut_short, tell, hear_of_faults, hear_of_operators)

    async def _tell_left_by_command(self) -> None:
        """A command that succeeds ends its container, whatever it has left in the background."""
        left = await self._group.left_by_command()
        if left:
            are = "is" if len(left) == 1 else "are"
            told = "; ".join((*left[:MOST_TOLD], *more(len(left) - MOST_TOLD)))
            message = (
                f"the command ended with 0 and left {counted(len(left), 'process', 'processes')}, "
                f"which {are} ended now; let the command wait for what it starts (wait in a "
                f"shell): {told}"
            )
            self._runtime.report(Diagnostic("once", message, None))

    async def _tell_remaining(self, then: str) -> NoReturn:
        clock, report = self._runtime.clock, self._runtime.report
        with LongWait(STOP, clock.elapsed, wait_ended(report)) as wait:
            while True:
                await clock.sleep(wait.pause)
                remaining = tuple((await self._group.remaining()).values())
                waited = wait.told()
                limit = waited + self._until - self._now
                report(StopWaiting(remaining, waited, round(limit, 3), then=then))

    async def _sweep(self, seconds: float) -> Swept:
        runtime, report = self._runtime, self._runtime.report
        swept = await sweep_descendants(
            runtime.children,
            runtime.ownership,
            self._group.known,
            seconds,
            lambda left: report(waiting_for(left)),
        )
        started = self._group.pids
        orphans = tuple(pid for pid in swept.killed if pid not in started)
        if orphans:
            report(OrphansKilled(len(orphans), orphans, earlier_start=False))
        if swept.left:
            report(StopWaiting(swept.left, given_up=True))
        return swept


def waiting_for(left: Left) -> StopWaiting | WaitEnded:
    """The event that tells what does not end, or that it is not waited for any more."""
    waited = round(left.waited, 3)
    if not left.descriptions:
        return WaitEnded(waited)
    return StopWaiting(left.descriptions, waited, left.limit)


def _may_be_alike(outcome: Outcome) -> bool:
    """Whether a rank complained and exited so soon that no other has anything to save yet."""
    if not isinstance(outcome, Crashed):
        return False
    failure = outcome.failure
    is_exit = failure.status.signal is None and failure.rank is not None
    is_soon = is_exit and failure.runtime_seconds < START_SECONDS
    return is_soon and any(map(_COMPLAINT.search, failure.last_lines[-COMPLAINT_LINES:]))


def _patience_for(outcome: Outcome, usual: Patience) -> Patience:
    """A drain is for the last checkpoint that the others may write after a failure here."""
    match outcome:
        case Fault(patience=Patience() as told):
            return told
        case Crashed():
            return usual
        case _:
            return replace(usual, drain=0.0)


def _drain(fault: Fault) -> float:
    return inf if fault.patience is None else fault.patience.drain


def _grace(fault: Fault) -> float:
    return inf if fault.patience is None else fault.patience.grace
