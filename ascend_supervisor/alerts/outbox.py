"""A bounded queue of what is to be delivered, one at a time; who puts something in never waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, NoReturn, TypeVar

import anyio

from ascend_supervisor.events.words import counted

Told = TypeVar("Told")

MOST_WAITING = 16
GIVEN_UP_SECONDS = 0.5
"""How long a delivery that is given up may take to end; it has nothing to wait for."""


class Outbox(Generic[Told]):
    """``deliver`` raises nothing, takes a bounded time, and ends at once when it is cancelled.

    ``tell`` is called with a sentence for what is not delivered.
    """

    def __init__(
        self, deliver: Callable[[Told], Awaitable[None]], tell: Callable[[str], None]
    ) -> None:
        self._deliver = deliver
        self._tell = tell
        self._items: asyncio.Queue[Told] = asyncio.Queue(MOST_WAITING)
        self._current = anyio.CancelScope()

    def put(self, item: Told) -> None:
        """Deliver it after all that wait; if they are too many, the oldest gives way."""
        if self._items.full():
            self._drop()
            self._tell(f"{MOST_WAITING} events wait already, so the oldest was dropped")
        self._items.put_nowait(item)

    async def keep(self) -> NoReturn:
        """Deliver whatever comes."""
        while True:
            item = await self._items.get()
            try:
                with anyio.CancelScope() as self._current:
                    await self._deliver(item)
            finally:
                self._items.task_done()

    async def finish(self, seconds: float) -> None:
        """Return when everything is delivered; after so many seconds, the rest is given up."""
        with anyio.move_on_after(seconds):
            await self._items.join()
            return
        left = 1 + self._items.qsize()
        while not self._items.empty():
            self._drop()
        self._tell(f"{counted(left, 'event')} given up, because the job has ended")
        self._current.cancel()
        with anyio.move_on_after(GIVEN_UP_SECONDS):
            await self._items.join()

    def _drop(self) -> None:
        self._items.get_nowait()
        self._items.task_done()
