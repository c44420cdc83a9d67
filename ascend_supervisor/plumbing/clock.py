"""Monotonic time as an argument, so that what waits for seconds can be tested without them."""

from __future__ import annotations

import time
from typing import Protocol

import anyio


class Clock(Protocol):
    def now(self) -> float:
        """Monotonic seconds."""

    async def sleep(self, seconds: float) -> None: ...


class MonotonicClock:
    """The kernel's monotonic clock: setting the wall clock does not move it."""

    def now(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)
