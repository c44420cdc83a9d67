"""Restarts that operators ask for: a generation ends on purpose, and the next one is free."""

from __future__ import annotations

import anyio

from ascend_supervisor.errors import UNAVAILABLE
from ascend_supervisor.life import Life
from ascend_supervisor.outcome import Fault, Remedy, Requester
from ascend_supervisor.probes import Probe


class RestartRequests(Probe):
    """Ends the generation that somebody wants restarted."""

    def __init__(self) -> None:
        self._generation: int | None = None
        self._by = Requester(0, 0)
        self._news = anyio.Event()

    def restart(self, generation: int, by: Requester) -> bool:
        """End ``generation``; false if that was asked for already."""
        if generation == self._generation:
            return False
        self._generation, self._by = generation, by
        self._news.set()
        self._news = anyio.Event()
        return True

    async def must_end(self, life: Life) -> Fault:
        while life.generation != self._generation:
            await self._news.wait()
        return Fault(f"restart asked for by {self._by}", UNAVAILABLE, Remedy.FREE)
