"""A registry of a job that has only just begun."""

from __future__ import annotations

from ascend_supervisor.control.chronicle import Chronicle
from ascend_supervisor.control.operations import Operations
from ascend_supervisor.metrics.registry import Outlet, Registry
from ascend_supervisor.progress.record import TrainingRecord
from ascend_supervisor.stop_requests import Interrupts
from ascend_supervisor.tasks.clock import MonotonicClock
from tests.metrics.snapshots import STATUS

CLOCK = MonotonicClock()


def registry_of(*outlets: Outlet) -> Registry:
    return Registry(outlets, TrainingRecord(60.0, CLOCK.elapsed()), CLOCK)


def operations() -> Operations:
    chronicle = Chronicle(STATUS, TrainingRecord(60.0, CLOCK.elapsed()), CLOCK)
    interrupts = Interrupts(chronicle.report, lambda: None, CLOCK)
    return Operations(chronicle, interrupts, CLOCK, chronicle.report, must_notify=False)
