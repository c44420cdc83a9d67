"""Alerts: what happens to a job is told to people and programs outside, at no cost to the job."""

from __future__ import annotations

from typing import NoReturn, Protocol

from ascend_supervisor.events import Event


class Alerts(Protocol):
    """One way to tell somebody."""

    def begin(self) -> None:
        """What happens from now on is of this job: no other supervisor has it."""

    def report(self, event: Event) -> None:
        """As any Report: nothing waits for whoever is told."""

    async def keep(self) -> NoReturn:
        """Tell what is reported, until this is cancelled."""

    async def finish(self) -> None:
        """Return within 3 s after the last event; what is not told by then is given up."""
