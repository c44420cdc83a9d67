"""Reporters: they write events for others, one file per reader."""

from __future__ import annotations

from collections.abc import Sequence

from ascend_supervisor.events import Event, Report


def fan_out(reporters: Sequence[Report]) -> Report:
    """One report that calls all of them, in order."""

    def report(event: Event) -> None:
        for reporter in reporters:
            reporter(event)

    return report
