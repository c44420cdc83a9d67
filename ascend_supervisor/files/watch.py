"""Tell when a file may have changed, on file systems with and without events, or was removed.

A check of (device, inode, size, mtime, ctime) every second is what counts; events on the parent
directory (a ConfigMap swaps a symlink there) only make the check come earlier.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import anyio

from ascend_supervisor.files.regular_file import reason_of
from ascend_supervisor.scarcity import NoThread
from ascend_supervisor.tasks.threads import check_room, in_turn

POLL_SECONDS = 1.0
DEADLINE_SECONDS = 10.0
"""After this time FileSystemTimeout is raised; the answer may still come later."""
DEBOUNCE_MILLISECONDS = 20
END_MILLISECONDS = 100
"""How long a watch may take to end: its thread checks at this interval."""

WATCHING_THREADS = 2
"""How many a watch takes. Without room for the one in Rust, it would end the whole process."""

T = TypeVar("T")


class FileSystemTimeout(Exception):
    """The file system did not answer in time; the text says why."""

    def __init__(self, reason: str = "the file system does not answer") -> None:
        super().__init__(reason)


class SlowFiles:
    """File system calls that may block, one at a time, each with a deadline in seconds.

    A call that is late goes on; until it returns, every other raises FileSystemTimeout at once.
    """

    def __init__(self, deadline: float = DEADLINE_SECONDS) -> None:
        self._deadline = deadline
        self._place = anyio.Semaphore(1)
        self._is_late = False

    async def ask(self, question: Callable[[], T]) -> T:
        """The answer; raises FileSystemTimeout, or what ``question`` raises."""
        if self._is_late and not self._place.value:
            raise FileSystemTimeout
        self._is_late = False
        try:
            with anyio.move_on_after(self._deadline):
                return await in_turn(question, self._place)
        except NoThread as lacking:
            raise FileSystemTimeout(str(lacking)) from lacking
        self._is_late = True
        raise FileSystemTimeout


Signature = tuple[int, int, int, int, int] | None
"""None: there is no such file, or no permission."""


def signature(path: Path) -> Signature:
    try:
        return signature_of(path.stat())
    except OSError:
        return None


def signature_of(found: os.stat_result) -> tuple[int, int, int, int, int]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _answering(directory: Path) -> Path:
    """The directory, read again: cached entries would be returned even for a dead server."""
    with os.scandir(directory) as entries:
        next(entries, None)
    return directory


class FileWatch:
    """Ends ``tick`` when something happens in a directory, or after ``poll_seconds``."""

    def __init__(
        self, unwatched: Callable[[str], None], *, poll_seconds: float = POLL_SECONDS
    ) -> None:
        self._unwatched = unwatched
        self._poll_seconds = poll_seconds
        self._event = anyio.Event()
        self._told = False
        self._files = SlowFiles()

    async def tick(self) -> None:
        """Return after an event, or ``poll_seconds``."""
        with anyio.move_on_after(self._poll_seconds):
            await self._event.wait()
        self._event = anyio.Event()

    async def watch(self, where: Callable[[], Path]) -> None:
        """Listen for events in the directory ``where`` for ever; report once if there are none.

        A directory that does not exist is waited for and not reported.
        ``where`` may block. So may watchfiles, and it holds the GIL while it sets up the watch, so
        nothing of ours runs. It is used only on a file system that has just answered.
        """
        from watchfiles import awatch  # noqa: PLC0415  (slow to import, and often not needed)

        while True:
            try:
                directory = await self._files.ask(lambda: _answering(where()))
                check_room(WATCHING_THREADS)
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
            except (FileSystemTimeout, FileNotFoundError):
                pass  # the directory may come; until then there is nothing to watch
            except (OSError, RuntimeError, NoThread) as error:
                self._tell(reason_of(error) if isinstance(error, OSError) else str(error))
            await anyio.sleep(min(self._poll_seconds, POLL_SECONDS))

    def _tell(self, reason: str) -> None:
        if not self._told:
            self._told = True
            self._unwatched(reason)


class Removals:
    """The files that are not to be missing.

    One thread looks for all of them: every look of its own would wake up two threads.
    """

    def __init__(self) -> None:
        self._waiting: dict[Path, tuple[asyncio.AbstractEventLoop, asyncio.Event]] = {}

    async def of(self, path: Path) -> None:
        """Return when a ``look`` finds nothing at ``path``."""
        gone = asyncio.Event()
        self._waiting[path] = (asyncio.get_running_loop(), gone)
        try:
            await gone.wait()
        finally:
            del self._waiting[path]

    def look(self) -> None:
        """To be called in a thread, because it may block."""
        for path, (loop, gone) in tuple(self._waiting.items()):
            if not os.path.lexists(path):
                with suppress(RuntimeError):  # the event loop is closed
                    loop.call_soon_threadsafe(gone.set)
