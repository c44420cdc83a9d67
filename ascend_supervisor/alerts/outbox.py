"""A bounded queue of what is to be delivered, one at a time; who puts something in never waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, NoReturn, TypeVar

import anyio

from ascend_supervisor.phrases import counted

Told = TypeVar("Told")

MOST_WAITING = 16
EARLIER_SHARE = 0.4
"""How much of the time of the last item, in front of it, all that came earlier have at the end."""
GIVEN_UP_SECONDS = 0.3
"""How long a delivery that is given up may take to end; it has nothing to wait for."""


class Outbox(Generic[Told]):
    """``deliver`` raises nothing, takes a bounded time, and ends at once when it is cancelled.

    It tells by itself what it does not deliver; ``tell`` is called with a sentence for what it is
    never called with. ``noun`` is what an item is called there.
    """

    def __init__(
        self, deliver: Callable[[Told], Awaitable[None]], tell: Callable[[str], None], noun: str
    ) -> None:
        self._deliver = deliver
        self._tell = tell
        self._noun = noun
        self._items: asyncio.Queue[Told] = asyncio.Queue(MOST_WAITING)
        self._current = anyio.CancelScope()
        self._dropped = 0

    def put(self, item: Told) -> None:
        """Deliver it after all that wait; if they are too many, the oldest gives way."""
        if self._items.full():
            self._drop()
            if not self._dropped:
                waiting = f"{MOST_WAITING} {self._noun}s wait already"
                self._tell(f"{waiting}, so the oldest is dropped; the end tells the number")
            self._dropped += 1
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
        """Return when everything is delivered, or given up.

        The last item has so many ``seconds``; what is not delivered after EARLIER_SHARE of them is
        given up for it.
        """
        if self._dropped:
            count = counted(self._dropped, self._noun)
            self._tell(f"{count} dropped, because {MOST_WAITING} waited already")
        earlier = EARLIER_SHARE * seconds
        if await self._is_done_within(earlier):
            return
        if self._items.empty():
            seconds -= earlier  # the last one has begun
        else:
            self._give_up_earlier()
        if await self._is_done_within(seconds):
            return
        self._current.cancel()
        await self._is_done_within(GIVEN_UP_SECONDS)

    def _give_up_earlier(self) -> None:
        if given_up := self._items.qsize() - 1:
            for _ in range(given_up):
                self._drop()
            count = counted(given_up, self._noun)
            self._tell(f"{count} given up for the last one, because the job has ended")
        self._current.cancel()

    async def _is_done_within(self, seconds: float) -> bool:
        with anyio.move_on_after(seconds):
            await self._items.join()
            return True
        return False

    def _drop(self) -> None:
        self._items.get_nowait()
        self._items.task_done()
