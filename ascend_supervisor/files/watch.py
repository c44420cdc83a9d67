"""Tell when a file may have changed, on file systems with and without events.

The truth is a look at (device, inode, size, both times of change) every second; events on the
parent directory (a ConfigMap swaps a symlink there) only make the look come earlier.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import anyio

from ascend_supervisor.errors import Unavailable
from ascend_supervisor.tasks.threads import Errand

POLL_SECONDS = 1.0
DEADLINE_SECONDS = 10.0
"""A file system that has not answered by then is told about; it may answer later."""
DEBOUNCE_MILLISECONDS = 20
END_MILLISECONDS = 100
"""How long a watch may take to end: its thread looks up only so often."""

T = TypeVar("T")


class FileSystemTimeout(Exception):
    """The file system did not answer in time; the text says why."""

    def __init__(self, reason: str = "the file system does not answer") -> None:
        super().__init__(reason)


class SlowFiles:
    """Runs what may block on a file system in a thread, with a deadline in seconds.

    One thread may hang, and is left behind; until it returns every question is a
    FileSystemTimeout.
    """

    def __init__(self, deadline: float = DEADLINE_SECONDS) -> None:
        self._deadline = deadline
        self._limiter = anyio.CapacityLimiter(1)
        self._errand: Errand[Any] | None = None
        self._is_late = False

    async def ask(self, question: Callable[[], T]) -> T:
        """The answer; raises FileSystemTimeout, or what ``question`` raises."""
        earlier = self._errand
        if earlier is not None and self._is_late and not earlier.is_done:
            raise FileSystemTimeout
        self._is_late = False
        with anyio.move_on_after(self._deadline):
            if earlier is not None:  # one that was cancelled may not be over yet
                await earlier.over()
            self._errand = errand = Errand(question, self._limiter)
            try:
                return await errand.result()
            except Unavailable as refusal:
                raise FileSystemTimeout(str(refusal)) from refusal
        self._is_late = True
        raise FileSystemTimeout


Signature = tuple[int, int, int, int, int] | None
"""None: there is no such file, or none that we may look at."""


def signature(path: Path) -> Signature:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _answering(directory: Path) -> Path:
    """The directory, read afresh: what is cached of it would answer for a dead server, too."""
    with os.scandir(directory) as entries:
        next(entries, None)
    return directory


class FileWatch:
    """Wakes whoever waits for ``change`` when something happens in a directory, or every second."""

    def __init__(self, unwatched: Callable[[str], None]) -> None:
        self._unwatched = unwatched
        self._event = anyio.Event()
        self._told = False
        self._files = SlowFiles()

    async def tick(self) -> None:
        """Return after an event, or POLL_SECONDS."""
        with anyio.move_on_after(POLL_SECONDS):
            await self._event.wait()
        self._event = anyio.Event()

    async def watch(self, where: Callable[[], Path]) -> None:
        """Listen for events in the directory ``where`` for ever; that there are none is told once.

        ``where`` may block. So may watchfiles, and nothing of ours runs meanwhile: it keeps the GIL
        while it asks for events. So it is asked only about a file system that has just answered.
        """
        from watchfiles import awatch  # noqa: PLC0415  (slow to import, and often not needed)

        while True:
            try:
                directory = await self._files.ask(lambda: _answering(where()))
                async for _ in awatch(
                    directory,
                    watch_filter=None,
                    debounce=DEBOUNCE_MILLISECONDS,
                    step=DEBOUNCE_MILLISECONDS // 2,
                    recursive=False,
                    rust_timeout=END_MILLISECONDS,
                    force_polling=False,
                ):
                    self._event.set()
            except FileSystemTimeout:
                pass
            except (OSError, RuntimeError) as error:
                self._tell(str(error))
            await anyio.sleep(POLL_SECONDS)

    def _tell(self, reason: str) -> None:
        if not self._told:
            self._told = True
            self._unwatched(reason)
