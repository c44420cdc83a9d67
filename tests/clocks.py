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


class StridingClock:
    """Every question is asked ``stride`` seconds after the one before."""

    def __init__(self, stride: float) -> None:
        self._time = 0.0
        self._stride = stride

    def now(self) -> float:
        self._time += self._stride
        return self._time

    def elapsed(self) -> float:
        return self._time

    async def sleep(self, seconds: float) -> None:
        await anyio.lowlevel.checkpoint()
