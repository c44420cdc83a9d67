"""Our stdout, written by a thread, because whoever reads it may stop reading.

Events are never dropped. What a rank says is dropped beyond a buffer, and counted: its log has it.
Lines are rendered where they are read, so a rank that floods waits for our processor, not for the
reader; rendering in the writing thread halved the throughput, for the two fight over the GIL.
"""

from __future__ import annotations

import errno
import os
import select
import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

from ascend_supervisor.plumbing.pump import widen_pipe
from ascend_supervisor.plumbing.writer import Writer

MIRROR_BYTES = 8 * 1024 * 1024
"""How much of the ranks' output may wait for a slow reader."""


Rendered = bytes | bytearray
"""Lines as they are written; whoever hands them over does not change them any more."""


class Lines(Protocol):
    """One rank's output as the console shows it; keeps the line that is not complete yet.

    Both give the bytes to write and the number of the next line. What raises has shown nothing, and
    can go on with the next chunk.
    """

    def render(self, chunk: bytes, moment: float, seq: int) -> tuple[Rendered, int]:
        """``chunk``, read at ``moment`` (seconds since the epoch)."""

    def rest(self, moment: float, seq: int) -> tuple[Rendered, int]:
        """The incomplete line, since nothing follows it."""


class Console:
    """Writes to ``fd``; nothing here waits for the reader but ``finish``.

    ``seq`` is the number of the next line: whoever puts lines that carry it counts it up.
    """

    def __init__(self, fd: int) -> None:
        self.seq = 0
        self._fd = fd
        self._broken = False
        widen_pipe(fd)
        self._writer: Writer[Rendered] = Writer(self._write, f"console {fd}")

    def put(self, data: Rendered) -> None:
        self._writer.put(data, len(data))

    @property
    def full(self) -> bool:
        """Whether what may be dropped must be."""
        return self._writer.queued > MIRROR_BYTES

    async def finish(self) -> bool:
        """Wait until all is written; False when the reader has stood still for too long."""
        return await self._writer.below(0)

    def _write(self, data: Rendered) -> None:
        view = memoryview(data)
        while view and not self._broken:
            try:
                view = view[os.write(self._fd, view) :]
            except OSError as error:
                # Somebody else may have made this pipe non-blocking; any other error is for good.
                if error.errno == errno.EAGAIN:
                    select.select([], [self._fd], [])
                else:
                    self._broken = True


class Mirror:
    """One rank's way to the console. ``dropped`` is told of lines that found no room.

    ``failed`` is told of the first defect in rendering: it costs the chunk, and never the job.
    """

    def __init__(
        self,
        console: Console,
        lines: Lines,
        dropped: Callable[[int], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._console = console
        self._lines = lines
        self._tell_dropped = dropped
        self._tell_failed = failed
        self._has_failed = False
        self._dropped = 0

    def take(self, chunk: bytes) -> None:
        if self._console.full:
            if not self._dropped:
                self._put_rest()
            self._dropped += max(chunk.count(b"\n"), 1)
            return
        self._tell()
        self._put(partial(self._lines.render, chunk))

    def end(self) -> None:
        """Nothing follows."""
        self._put_rest()
        self._tell()

    def _put_rest(self) -> None:
        self._put(self._lines.rest)

    def _put(self, rendered: Callable[[float, int], tuple[Rendered, int]]) -> None:
        try:
            data, self._console.seq = rendered(time.time(), self._console.seq)
        except Exception as error:  # noqa: BLE001  (whatever it is, the job goes on)
            if not self._has_failed:
                self._has_failed = True
                self._tell_failed(error)
            return
        if data:
            self._console.put(data)

    def _tell(self) -> None:
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            self._tell_dropped(dropped)
