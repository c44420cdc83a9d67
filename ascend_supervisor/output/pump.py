"""Moves the output of a process from its pipe to its log and the console.

The event loop reads, threads write; a process waits only for a disk that makes progress. The last
lines and the activity of the process are kept.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from ascend_supervisor.output.console_thread import PIPE_BYTES, widen_pipe
from ascend_supervisor.output.last_lines import Activity
from ascend_supervisor.output.log_thread import LogWriter
from ascend_supervisor.output.mirror import CHUNK_BYTES, Mirror
from ascend_supervisor.tasks.clock import Clock


class Sink:
    """``log`` is None if the process writes its log itself, ``mirror`` if it is not shown.

    ``activity`` says how much came and when.
    """

    def __init__(self, log: LogWriter | None, mirror: Mirror | None, clock: Clock) -> None:
        self.activity = Activity(clock.now())
        self._log = log
        self._mirror = mirror
        self._clock = clock

    @property
    def portion(self) -> int:
        """How many bytes ``take`` should get at once."""
        return self._mirror.portion if self._mirror else CHUNK_BYTES

    async def room_in_log(self) -> None:
        """Return when the log has room for a chunk, or nothing to wait for."""
        if self._log:
            await self._log.room()

    async def room_on_console(self) -> None:
        """Return when output can be shown, or must be dropped."""
        if self._mirror:
            await self._mirror.room()

    def take(self, chunk: bytes) -> None:
        self.activity.take(chunk, self._clock.now())
        if self._log:
            self._log.take(chunk)
        if self._mirror:
            self._mirror.take(chunk)

    def heard(self, size: int) -> None:
        """Note that the process has written ``size`` bytes."""
        self.activity.note(size, self._clock.now())

    def end(self) -> None:
        """Nothing follows."""
        if self._mirror:
            self._mirror.end()

    @property
    def last_lines(self) -> tuple[str, ...]:
        """The last lines of the output so far."""
        return self.activity.last_lines


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
