"""Notices that somebody removes a file of ours, such as a cleaner of temporary directories."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path


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
