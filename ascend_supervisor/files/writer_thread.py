"""A thread that writes, so that a stalled disk or reader never blocks the event loop.

The caller decides what to do when the writer falls behind: wait while it makes progress, discard
when it makes none. Of a small file only the newest content may matter.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, NoReturn, TypeVar

import anyio

from ascend_supervisor.scarcity import scarcity
from ascend_supervisor.tasks.clock import TICK_SECONDS, RunningTime
from ascend_supervisor.tasks.threads import start_thread

Item = TypeVar("Item")

STALL_SECONDS = 5.0
"""A write that takes this long makes no progress; time while we were stopped is left out."""


class Writer(Generic[Item]):
    """Hands items, in order, to ``write`` in a thread of its own.

    ``write`` must not raise. ``queued`` counts in the unit that ``put`` was given (bytes).
    Making one raises NoThread. A write that takes ``stall_seconds`` makes no progress.
    """

    def __init__(
        self,
        write: Callable[[Item], None],
        name: str,
        *,
        stall_seconds: float = STALL_SECONDS,
    ) -> None:
        self._write = write
        self._stall_seconds = stall_seconds
        self._items: deque[tuple[Item, int]] = deque()
        self._ready = threading.Condition()
        self._time = RunningTime()
        self._progress = self._time.now()
        self._waiters: list[tuple[int, asyncio.AbstractEventLoop, asyncio.Event]] = []
        self._unwritten = 0
        """Of the item that is being written."""
        self._closed = False
        self.queued = 0
        self.refusal: str | None = None
        start_thread(self._run, name)

    def put(self, item: Item, size: int = 1) -> None:
        """Queue an item that counts as ``size``, at least 1."""
        with self._ready:
            if not self.queued:
                self._progress = self._time.now()
            self._items.append((item, max(size, 1)))
            self.queued += max(size, 1)
            self._ready.notify()

    def obstacle(self) -> str | None:
        """Why nothing is being written now, or None while there is progress or nothing to do."""
        return self.refusal or self.stall()

    def stall(self) -> str | None:
        """Why nothing has been written for ``stall_seconds`` although something is queued."""
        if self._patience() > 0:
            return None
        return self.refusal or f"a write has not returned for {self._stall_seconds:g} s"

    async def below(self, limit: int) -> bool:
        """Wait until at most ``limit`` is queued; False as soon as there is an obstacle."""
        while self.queued > limit:
            if self.obstacle():
                return False
            step = self._step_below(limit)
            if self.queued > limit:
                with anyio.move_on_after(min(self._patience(), TICK_SECONDS)):
                    await step.wait()
        return True

    def progressed(self, size: int) -> None:
        """Called by ``write``: this much of a large item is done.

        Its last unit counts as queued until ``write`` returns: more may follow what was counted.
        """
        self._count(min(size, self._unwritten - 1))

    def refuse(self, reason: str | None) -> None:
        """Called by ``write`` with the reason of a refusal, or None when it can write again."""
        self.refusal = reason
        self._wake(made_progress=reason is None)

    def close(self) -> None:
        """Let the thread end once everything has been written."""
        with self._ready:
            self._closed = True
            self._ready.notify()

    def _count(self, done: int) -> None:
        with self._ready:
            self._unwritten -= done
            self.queued -= done
        self._wake(made_progress=True)

    def _patience(self) -> float:
        with self._ready:
            running = self._time.now() - self._progress
        return self._stall_seconds - running if self.queued else self._stall_seconds

    def _step_below(self, limit: int) -> asyncio.Event:
        """Set when no more than ``limit`` is queued, or writing is refused."""
        step = asyncio.Event()
        with self._ready:
            self._waiters.append((limit, asyncio.get_running_loop(), step))
        return step

    def _run(self) -> None:
        while True:
            with self._ready:
                while not self._items:
                    if self._closed:
                        return
                    self._ready.wait()
                item, self._unwritten = self._items.popleft()
            self._write(item)
            self._count(self._unwritten)

    def _wake(self, *, made_progress: bool) -> None:
        with self._ready:
            if made_progress:
                self._progress = self._time.now()
            waiters, self._waiters = self._waiters, []
            for limit, loop, step in waiters:
                if self.queued > limit and not self.refusal:
                    self._waiters.append((limit, loop, step))
                    continue
                with suppress(RuntimeError):  # that loop has ended meanwhile
                    loop.call_soon_threadsafe(step.set)


SETTLE_SECONDS = 0.02
"""The thread waits this long before it writes, so that changes are written together."""

LAST_SECONDS, AGAIN_SECONDS = 1.0, 0.1

Latest = TypeVar("Latest")

IsThere = Callable[[], bool]
"""Whether the file is still where it was written; may block."""


class LatestFile(Generic[Latest]):
    """``write`` may block and raise OSError.

    ``failed`` is called in the writing thread, once per series of failures.
    """

    def __init__(
        self, write: Callable[[Latest], None], failed: Callable[[OSError], None], name: str
    ) -> None:
        self._write_content = write
        self._failed = failed
        self._failing = False
        self._is_scarce = False
        self._finishing = threading.Event()
        self._writer: Writer[IsThere | None] = Writer(self._write, name)
        self._latest: Latest
        self._written: Latest | None = None

    def put(self, content: Latest) -> None:
        """Write ``content`` soon, unless something newer comes before that."""
        self._latest = content
        if self._writer.queued < 2:  # noqa: PLR2004  (one being written, one to come)
            self._writer.put(None)

    async def keep(self, is_there: IsThere, seconds: float) -> NoReturn:
        """Every ``seconds``, write the file again if it was removed or could not be written.

        To be called when there is content. The thread checks; checks are not queued.
        """
        while True:
            await anyio.sleep(seconds)
            if not self._writer.queued:
                self._writer.put(is_there)

    async def finish(self) -> bool:
        """Wait until the newest content is written; False when the disk does not answer.

        What fails because something is scarce is tried again for LAST_SECONDS: others that finish
        at the same time may have had the last descriptor.
        """
        self._finishing.set()
        with anyio.move_on_after(LAST_SECONDS):
            while await self._writer.below(0) and self._is_scarce:
                await anyio.sleep(AGAIN_SECONDS)
                self._writer.put(None)
        return await self._writer.below(0)

    def _write(self, is_there: IsThere | None) -> None:
        """Write the newest content, unless it was written already and ``is_there`` finds it."""
        if self._written is self._latest and (is_there is None or is_there()):
            return
        self._finishing.wait(SETTLE_SECONDS)
        content = self._latest
        try:
            self._write_content(content)
        except OSError as error:
            self._written = None
            if not self._failing:
                self._failed(error)
            self._failing, self._is_scarce = True, scarcity(error) is not None
        else:
            self._written = content
            self._failing = self._is_scarce = False
