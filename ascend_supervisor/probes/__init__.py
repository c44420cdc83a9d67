"""Probes: when a generation may start, and that it must end; one file a source."""

from __future__ import annotations

from typing import Protocol

from ascend_supervisor.outcome import Fault


class Probe(Protocol):
    async def ready(self, generation: int) -> None:
        """Return when ``generation`` may start; raises a Refusal when it never may."""

    async def failed(self, generation: int) -> Fault:
        """Return when ``generation`` must end; else wait for ever."""
