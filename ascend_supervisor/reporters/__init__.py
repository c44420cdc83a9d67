"""Reporters: from events to the world, one file a reader."""

from __future__ import annotations

from collections.abc import Sequence

from ascend_supervisor.events import Event, Report, SupervisorExited


def fan_out(reporters: Sequence[Report]) -> Report:
    """One report for all of them, in order. Nothing follows SupervisorExited.

    Signals, and what a thread has to tell, may still come while the last event is being written.
    """
    ended = False

    def report(event: Event) -> None:
        nonlocal ended
        if ended:
            return
        ended = isinstance(event, SupervisorExited)
        for reporter in reporters:
            reporter(event)

    return report
