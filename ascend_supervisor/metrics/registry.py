"""What is known at any moment, counted and asked for; outlets hand it on, each in its own way."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Protocol

import anyio

from ascend_supervisor.control.operations import Operations
from ascend_supervisor.events import Event, Report
from ascend_supervisor.metrics.figures import Snapshot
from ascend_supervisor.metrics.tally import Tally, counted
from ascend_supervisor.processes.proc import resident_bytes
from ascend_supervisor.progress.record import TrainingRecord
from ascend_supervisor.tasks.clock import Clock


class Registry:
    """``report`` counts events from the first one on; nothing leaves before ``begin``."""

    def __init__(self, outlets: Sequence[Outlet], training: TrainingRecord, clock: Clock) -> None:
        self._outlets = outlets
        self._training = training
        self._clock = clock
        self._tally = Tally()

    def begin(self, operations: Operations, tell: Report) -> None:
        """Raises Refusal; ``tell`` gets the events of the outlets."""
        self.operations, self.tell = operations, tell
        for outlet in self._outlets:
            outlet.begin(self)

    def report(self, event: Event) -> None:
        self._tally = counted(self._tally, event, self._clock.elapsed())
        for outlet in self._outlets:
            outlet.report(event)

    async def keep(self) -> None:
        async with anyio.create_task_group() as tasks:
            for outlet in self._outlets:
                tasks.start_soon(outlet.keep)

    def snapshot(self) -> Snapshot:
        """All that is known now; to be asked after ``begin``."""
        return Snapshot(
            live=self.operations.status(),
            tally=self._tally,
            now=self._clock.elapsed(),
            at=time.time(),
            longest_pause=self._training.longest_pause,
            cpu_seconds=time.process_time(),
            memory_bytes=resident_bytes(os.getpid()),
        )


class Outlet(Protocol):
    """One way in which figures leave. ``keep`` runs until it is cancelled."""

    def begin(self, registry: Registry) -> None:
        """No other supervisor uses the place from now on. Raises Refusal."""

    def report(self, event: Event) -> None:
        """It was counted, maybe before ``begin``."""

    async def keep(self) -> None: ...
