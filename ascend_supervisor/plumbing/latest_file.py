"""A small file of which only the newest content matters, written by a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from ascend_supervisor.plumbing.writer import Writer

SETTLE_SECONDS = 0.02
"""Changes that come together are written together: the thread waits so long before it writes."""

Content = TypeVar("Content")


class LatestFile(Generic[Content]):
    """``write`` may block and raise OSError; the first failure of a row is told from its thread."""

    def __init__(
        self, write: Callable[[Content], None], failed: Callable[[OSError], None], name: str
    ) -> None:
        self._write_content = write
        self._failed = failed
        self._failing = False
        self._finishing = threading.Event()
        self._writer: Writer[None] = Writer(self._write, name)
        self._latest: Content

    def put(self, content: Content) -> None:
        """Write ``content`` soon, unless something newer comes before that."""
        self._latest = content
        if self._writer.queued < 2:  # noqa: PLR2004  (one being written, one to come)
            self._writer.put(None)

    async def finish(self) -> bool:
        """Wait until the newest content is written; False when the disk does not answer."""
        self._finishing.set()
        return await self._writer.below(0)

    def _write(self, _: None) -> None:
        self._finishing.wait(SETTLE_SECONDS)
        try:
            self._write_content(self._latest)
        except OSError as error:
            if not self._failing:
                self._failed(error)
            self._failing = True
        else:
            self._failing = False
