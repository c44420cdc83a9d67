"""What wakes a session, and what its session tells those that wait for it."""

from __future__ import annotations

import anyio

from ascend_supervisor.coordination.agreement.records import About


class Wakes:
    def __init__(self) -> None:
        self._news = anyio.Event()
        self._told: About | None = None
        self._changed = anyio.Event()

    def wake(self, told: About | None = None) -> None:
        """Something may have changed, here or in etcd; ``told`` says all of it."""
        is_all = self._told is not None or not self._news.is_set()
        self._told = told if is_all else None
        self._news.set()  # until the next wait has ended

    async def woken(self, seconds: float) -> About | None:
        """Return after the next wake, or one since the last return; after so long in any case.

        What was told last, if no other wake came.
        """
        with anyio.move_on_after(max(0.0, seconds)):
            await self._news.wait()
        told, self._told = self._told, None
        self._news = anyio.Event()  # only now: what came while we read may not have been seen
        return told

    def tell(self) -> None:
        """The order, or what is known of the job, has changed."""
        self._changed.set()
        self._changed = anyio.Event()

    async def change(self) -> None:
        """Return after the next change that is told."""
        await self._changed.wait()
