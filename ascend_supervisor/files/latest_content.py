"""A small file of which only the newest content matters, written by a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, NoReturn, TypeVar

import anyio

from ascend_supervisor.files.writer_thread import Writer

SETTLE_SECONDS = 0.02
"""The thread waits this long before it writes, so that changes are written together."""

Content = TypeVar("Content")

IsThere = Callable[[], bool]
"""Whether the file is still where it was written; may block."""


class LatestFile(Generic[Content]):
    """``write`` may block and raise OSError.

    ``failed`` is called in the writing thread, once per series of failures.
    """

    def __init__(
        self, write: Callable[[Content], None], failed: Callable[[OSError], None], name: str
    ) -> None:
        self._write_content = write
        self._failed = failed
        self._failing = False
        self._finishing = threading.Event()
        self._writer: Writer[IsThere | None] = Writer(self._write, name)
        self._latest: Content
        self._written: Content | None = None

    def put(self, content: Content) -> None:
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
        """Wait until the newest content is written; False when the disk does not answer."""
        self._finishing.set()
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
            self._failing = True
        else:
            self._written = content
            self._failing = False
