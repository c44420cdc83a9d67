"""A descriptor with a reader that we do not control, written in pieces.

A piece either fits into the pipe or is small, so that the progress of a slow reader is visible. The
descriptor may be shared with other processes, so it is never made non-blocking.
"""

from __future__ import annotations

import fcntl
import os
import select
import stat
import sys
import termios
from contextlib import suppress

MOST_BYTES = 256 * 1024
"""What is written at once at most."""
STEP_BYTES = 16 * 1024
"""What is written at once if the write may wait for the reader: 3 s at 5 KB a second."""
PIPE_BYTES = 1024 * 1024
F_SETPIPE_SZ, F_GETPIPE_SZ = 1031, 1032
"""fcntl.h; the names are in Python's fcntl from 3.10 on, but not on every libc."""


class Stream:
    """``waiting`` says whether the writing thread waits for the reader, or for a disk."""

    def __init__(self, fd: int) -> None:
        self.waiting = False
        self._fd = fd
        kind = os.fstat(fd).st_mode
        self._capacity = _capacity(fd) if stat.S_ISFIFO(kind) else None
        self._has_reader = stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind) or os.isatty(fd)

    def write(self, data: memoryview) -> int:
        """Write a part of ``data`` as soon as there is room; returns its size. Raises OSError."""
        self.waiting = True
        try:
            while True:
                try:
                    return os.write(self._fd, data[: self._piece()])
                except BlockingIOError:  # another process made this descriptor non-blocking
                    select.select([], [self._fd], [])
        finally:
            self.waiting = False

    def _piece(self) -> int:
        if not self._has_reader:
            return MOST_BYTES
        if self._capacity is None:
            return STEP_BYTES
        # What fits for certain: the pages of a pipe may be half full.
        free = self._capacity // 2 - _unread(self._fd)
        return max(min(free, MOST_BYTES), STEP_BYTES)


def widen_pipe(descriptor: int) -> None:
    """Enlarge a pipe to PIPE_BYTES, if it is a pipe and the user's limit allows it."""
    with suppress(OSError):
        fcntl.fcntl(descriptor, F_SETPIPE_SZ, PIPE_BYTES)


def _capacity(pipe: int) -> int | None:
    """How many bytes a pipe can hold, enlarged if allowed; None if unknown."""
    widen_pipe(pipe)
    try:
        _unread(pipe)
        return fcntl.fcntl(pipe, F_GETPIPE_SZ)
    except OSError:
        return None


def _unread(pipe: int) -> int:
    """Bytes that are in the pipe."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)
