"""What wakes a session, and whoever waits for what it decides."""

from __future__ import annotations

import anyio


class Wakes:
    def __init__(self) -> None:
        self._news = anyio.Event()
        self._changed = anyio.Event()

    def wake(self) -> None:
        """Something may have changed, here or in etcd."""
        self._news.set()  # until the next wait has ended

    async def woken(self, seconds: float) -> None:
        """Return after the next wake, or one since the last return; after so long in any case."""
        with anyio.move_on_after(max(0.0, seconds)):
            await self._news.wait()
        self._news = anyio.Event()  # only now: what came while we read may not have been seen

    def tell(self) -> None:
        """The order, or what is known of the job, has changed."""
        self._changed.set()
        self._changed = anyio.Event()

    async def change(self) -> None:
        """Return after the next change that is told."""
        await self._changed.wait()
