"""Moves what a process writes from its pipe to its log and to the console.

The event loop reads, threads write; a process is held up only by a disk that makes progress.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

import anyio

CHUNK_BYTES = 256 * 1024
PIPE_BYTES = 1024 * 1024
F_SETPIPE_SZ = 1031
"""fcntl.h; the name is in Python's fcntl from 3.10 on, but not on every libc."""
TAIL_BYTES = 8 * 1024
"""How much of the end is remembered, for telling why a process failed."""
LAST_BYTES = 16 * PIPE_BYTES
"""What is read at the end at most: somebody who escaped may be writing for ever."""


class Sink(Protocol):
    """A log: LogWriter."""

    def take(self, chunk: bytes) -> None: ...

    async def room(self) -> None: ...


class Echo(Protocol):
    """A way to the console: Mirror. ``portion`` is what it wants to be given at once, in bytes."""

    @property
    def portion(self) -> int: ...

    def take(self, chunk: bytes) -> None: ...

    async def room(self) -> None: ...

    def end(self) -> None: ...


class Pump:
    """Give ``write_end`` to the process, then call ``started``; ``run`` until ``finish``.

    ``heard`` is told how many bytes came.
    """

    def __init__(self, log: Sink, echo: Echo | None, heard: Callable[[int], None]) -> None:
        self._log = log
        self._echo = echo
        self._heard = heard
        self._read_end, self.write_end = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._read_end, False)
        widen_pipe(self._read_end)
        self.pipe = f"pipe:[{os.fstat(self._read_end).st_ino}]"
        """Its name in /proc/PID/fd of whoever holds an end."""
        self._tail = b""

    def started(self) -> None:
        """The process holds the write end now, and only it."""
        os.close(self.write_end)

    async def run(self) -> None:
        """Pump until nobody holds the write end any more; to be cancelled before ``finish``."""
        while True:
            await self._log.room()
            await anyio.wait_readable(self._read_end)
            if self._echo:
                await self._echo.room()
            if self._read() == 0:
                return

    def drain(self) -> None:
        """Take what is in the pipe now; what a dead process wrote is complete then."""
        taken = 0
        while taken < LAST_BYTES and (size := self._read()):
            taken += size

    def finish(self) -> None:
        """Drain and close."""
        self.drain()
        os.close(self._read_end)
        if self._echo:
            self._echo.end()

    @property
    def last_lines(self) -> tuple[str, ...]:
        """The end of what was read, in lines."""
        text = self._tail.decode("utf-8", "backslashreplace").replace("\0", "")
        return tuple(line.rpartition("\r")[2] for line in text.rstrip("\n").split("\n"))

    def _read(self) -> int | None:
        """How many bytes came: 0 at the end, None when there are none now."""
        try:
            size = self._echo.portion if self._echo else CHUNK_BYTES
            chunk = os.read(self._read_end, size)
        except BlockingIOError:
            return None
        if chunk:
            self._tail = (self._tail + chunk[-TAIL_BYTES:])[-TAIL_BYTES:]
            self._heard(len(chunk))
            self._log.take(chunk)
            if self._echo:
                self._echo.take(chunk)
        return len(chunk)


def widen_pipe(descriptor: int) -> None:
    """Let a pipe hold PIPE_BYTES, where it is one and the user's limit for pipes allows it."""
    with suppress(OSError):
        fcntl.fcntl(descriptor, F_SETPIPE_SZ, PIPE_BYTES)
