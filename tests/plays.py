"""Generations that a test plays: everything of ``supervise`` is real but the processes."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import anyio

from ascend_supervisor.cluster.made_table import standalone_table
from ascend_supervisor.coordination import Coordinator
from ascend_supervisor.coordination.alone import Alone, Ledger
from ascend_supervisor.events import Event
from ascend_supervisor.events.generations import GenerationStarted
from ascend_supervisor.events.supervisor import SupervisorExited
from ascend_supervisor.life import Life, Placed, Plan
from ascend_supervisor.outcome import (
    Completed,
    Crashed,
    Ended,
    ExitStatus,
    Failure,
    Interrupted,
    Outcome,
)
from ascend_supervisor.probes import Probe
from ascend_supervisor.restart_policy import RestartBudget
from ascend_supervisor.stop_requests import Interrupts
from ascend_supervisor.supervisor import Job, supervise
from ascend_supervisor.tasks.clock import MonotonicClock
from ascend_supervisor.tasks.race import first
from ascend_supervisor.workers.faults import Faults
from ascend_supervisor.workers.generation import Company

Act = Callable[[Life], Awaitable[Outcome]]
"""What the ranks of a generation do, until they end or one fails."""


def failure(rank: int, generation: int, status: int = 1) -> Failure:
    return Failure(f"rank {rank}", rank, generation, ExitStatus(status), 1.0, log=f"{rank}.txt")


async def train(_: Life) -> Outcome:
    """For ever."""
    await anyio.sleep_forever()
    raise AssertionError


async def finish(_: Life) -> Outcome:
    return Completed()


async def crash(life: Life) -> Outcome:
    """The first rank of this server."""
    return Crashed(failure(life.plan.start.local_ranks[0], life.generation))


def alone(limit: int = 0, period: float | None = None) -> Alone:
    found = standalone_table(2)

    async def placed() -> Placed:
        return Placed(found, 0, found.table.entries[0])

    ledger = Ledger(RestartBudget(limit, period), MonotonicClock().now, lambda: 0.0)
    return Alone(placed, ledger)


@dataclass
class Stage:
    """One run of ``supervise``; generation n does what ``acts[n]`` says.

    ``told`` is what ranks and others are told, in this order. ``winding_down`` is what happens
    between the first reason to end and the end.
    """

    acts: Sequence[Act]
    coordinator: Coordinator = field(default_factory=alone)
    probes: Sequence[Probe] = ()
    winding_down: Act = finish
    events: list[Event] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)
    plans: list[Plan] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock = MonotonicClock()
        self.interrupts = Interrupts(self.events.append, lambda: None, self.clock)

    async def run(self) -> SupervisorExited:
        job = Job(
            coordinator=self.coordinator,
            probes=self.probes,
            sweep=anyio.lowlevel.checkpoint,
            plan=lambda start: Plan(start, ()),
            prepare=self._prepare,
            run=self._generation,
            look=self._look,
            release=0.0,
            interrupts=self.interrupts,
            clock=self.clock,
            report=self.report,
        )
        with anyio.fail_after(60):
            self.exit = await supervise(job)
        return self.exit.event

    def report(self, event: Event) -> None:
        self.events.append(event)

    def stop(self) -> None:
        """Tell the supervisor to stop, as SIGTERM does."""
        self.interrupts.hear(signal.SIGTERM)

    @property
    def generations(self) -> list[int]:
        return [e.generation for e in self.events if isinstance(e, GenerationStarted)]

    async def _prepare(self, plan: Plan) -> Plan:
        self.plans.append(plan)
        return plan

    async def _look(self, life: Life) -> str:
        self.told.append("look")
        return ""

    async def _generation(self, life: Life, company: Company) -> Ended:
        """As run_generation does it, without processes."""
        faults = Faults(company.endings, self.clock)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(faults.listen)
            act = partial(self.acts[life.generation], life)
            outcome: Outcome = await first(act, self._interrupted, faults.first)
            await company.announce(outcome, 1.0)
            self.told.append(f"ranks of generation {life.generation}")
            await self.winding_down(life)
            tasks.cancel_scope.cancel()
        later = tuple(fault for fault in faults.told if fault is not outcome)
        self.ended.append(Ended(outcome, 1.0, later))
        return self.ended[-1]

    async def _interrupted(self) -> Outcome:
        return Interrupted(await self.interrupts.stop())
