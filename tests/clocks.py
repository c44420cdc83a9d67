"""A clock of the tests: nobody waits for it."""

from __future__ import annotations

import anyio


class LeapingClock:
    """Every sleep is over at once, and has lasted ``more`` seconds longer than was asked."""

    def __init__(self, more: float = 0.0) -> None:
        self.time = 0.0
        self._more = more

    def now(self) -> float:
        return self.time

    elapsed = now

    async def sleep(self, seconds: float) -> None:
        self.time += seconds + self._more
        await anyio.lowlevel.checkpoint()
