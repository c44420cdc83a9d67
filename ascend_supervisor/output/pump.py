"""Moves the output of a process from its pipe to its sink.

The event loop reads, threads write; a process waits only for a disk that makes progress.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from ascend_supervisor.output.sink import Sink
from ascend_supervisor.output.stream import PIPE_BYTES, widen_pipe

LAST_BYTES = 16 * PIPE_BYTES
"""How much is read at the end at most: an escaped process may write for ever."""


class Pump:
    """Start the process in ``write_end``; ``run`` until ``finish``."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._read_end = -1
        self.pipe = ""
        """Its name in /proc/PID/fd of the processes that hold an end."""

    @contextmanager
    def write_end(self) -> Iterator[int]:
        """For the process, which holds the only copy afterwards; raises OSError.

        If the process is not started, there is nothing to ``finish``.
        """
        self._read_end, write_end = os.pipe2(os.O_CLOEXEC)
        try:
            os.set_blocking(self._read_end, False)
            widen_pipe(self._read_end)
            self.pipe = f"pipe:[{os.fstat(self._read_end).st_ino}]"
            yield write_end
        except BaseException:
            os.close(self._read_end)
            raise
        finally:
            os.close(write_end)

    async def run(self) -> None:
        """Pump until the write end is closed everywhere; to be cancelled before ``finish``."""
        while True:
            await self._sink.room_in_log()
            await anyio.wait_readable(self._read_end)
            await self._sink.room_on_console()
            if self._read() == 0:
                return

    def drain(self) -> None:
        """Read what is in the pipe now: all output of a process that is dead."""
        taken = 0
        while taken < LAST_BYTES and (size := self._read()):
            taken += size

    def finish(self) -> None:
        """Drain and close."""
        self.drain()
        os.close(self._read_end)
        self._sink.end()

    def _read(self) -> int | None:
        """How many bytes came: 0 at the end, None when there are none now."""
        try:
            chunk = os.read(self._read_end, self._sink.portion)
        except BlockingIOError:
            return None
        if chunk:
            self._sink.take(chunk)
        return len(chunk)
