"""Writes our stdout, line by line, in a thread of its own; counts ``seq`` as it writes.

A piece either fits into the pipe or is small, so that the progress of a slow reader is visible. The
descriptor may be shared with other processes, so it is never made non-blocking.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import stat
import sys
import termios
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress

from msgspec import Struct

from ascend_supervisor.files.writer_thread import Writer
from ascend_supervisor.output.footer import Footer

Rendered = bytes | bytearray
"""Rendered lines; the caller must not change them afterwards."""
Render = Callable[[Iterator[int]], Rendered]
"""Renders lines; each line with ``seq`` takes the next number. It may raise."""
Dropped = Callable[[int, str], None]
"""Called with the number of dropped lines of a rank, and the reason."""


class Plain(Struct, frozen=True):
    """A line of ours."""

    line: bytes


class Numbered(Struct, frozen=True):
    """A JSON object of ours on a line; ``seq`` becomes its first key when it is written."""

    line: bytes


class Said(Struct, frozen=True):
    """Lines of a rank; ``next_seq`` is the number of the line that follows."""

    shown: Rendered
    next_seq: int
    ends: Callable[[Rendered], int]
    dropped: Dropped


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


RETRY_SECONDS = 0.2
"""How often a write that a disk refused is retried."""
GONE = frozenset({errno.EPIPE, errno.ECONNRESET, errno.EBADF})
"""The reader is gone for good; all other errors may pass."""
CUT = b" ...(cut)...\n"
"""Ends a line of which only the beginning was shown."""


class ConsoleThread:
    """Writes what is put into ``queue`` to ``stream``.

    ``refused`` is called, in this thread, when a disk begins to refuse.
    """

    def __init__(self, fd: int, refused: Callable[[str], None]) -> None:
        self.stream = Stream(fd)
        self.footer = Footer(fd)
        self.is_gone = False
        """Whether the reader is gone."""
        self._refused = refused
        self._next_seq = 0
        self._at_line_start = True
        self._began_line: Dropped | None = None
        """Whose line is not finished: each rank has its own."""
        self._is_refusing = False
        self._is_dropping = False
        self._dropped: Counter[Dropped] = Counter()
        self.queue: Writer[Plain | Numbered | Said | Footer] = Writer(self._write, f"console {fd}")

    @property
    def dropped(self) -> Counter[Dropped]:
        """How many lines of each rank ``drop_output`` has dropped so far; they only grow."""
        return self._dropped.copy()

    def drop_output(self) -> None:
        """Drop rank output that is not written yet, except the line that is being written."""
        self._is_dropping = True

    def _write(self, item: Plain | Numbered | Said | Footer) -> None:
        if not isinstance(item, Footer):
            self._steer(self.footer.erasure())
            self._write_line(item)
        self._steer(self.footer.drawing(at_line_start=self._at_line_start))

    def _write_line(self, item: Plain | Numbered | Said) -> None:
        if isinstance(item, Said):
            self._write_said(item)
            return
        line = item.line
        if isinstance(item, Numbered):
            line = b'{"seq":%d,%b' % (self._next_seq, line[1:])
            self._next_seq += 1
        self._insist(line if self._at_line_start else b"\n" + line)

    def _steer(self, sequence: bytes) -> None:
        """Write what leaves the cursor where it was: at the start of a line."""
        before = self._at_line_start
        self._insist(sequence)
        self._at_line_start = before

    def _insist(self, data: bytes) -> None:
        view = memoryview(data)
        while view and not self.is_gone:
            view = view[self._write_some(view) :]

    def _write_said(self, said: Said) -> None:
        if not self._at_line_start and self._began_line is not said.dropped:
            self._insist(b"\n")  # another one's line is not finished
        self._began_line = said.dropped
        view = memoryview(said.shown)
        done, end = 0, len(view)
        is_cut = False
        while done < end and not self.is_gone:
            if self._is_dropping and not is_cut:
                is_cut, end = True, self._end_of_line(said.shown, done)
            else:
                done += self._write_some(view[done:end])
        rest = said.shown[end:]
        if rest:
            self._dropped[said.dropped] += said.ends(rest)
            if not self._at_line_start:
                self._insist(CUT)
        if end:
            self._next_seq = said.next_seq - rest.count(b"\n")

    def _end_of_line(self, shown: Rendered, done: int) -> int:
        """The end of the partly written line; ``done`` if there is no such line or no end."""
        return done if self._at_line_start else shown.find(b"\n", done) + 1 or done

    def _write_some(self, data: memoryview) -> int:
        """Write a part of it; returns its size, or 0 after a refusal or without a reader."""
        try:
            size = self.stream.write(data)
        except OSError as error:
            if error.errno in GONE:
                self.is_gone = True
            else:
                self._refuse(error.strerror or str(error))
            return 0
        self._is_refusing = False
        if self.queue.refusal:
            self.queue.refuse(None)
        self._at_line_start = data[size - 1] == ord("\n")
        self.queue.progressed(size)
        return size

    def _refuse(self, reason: str) -> None:
        if not self._is_refusing:
            self._refused(reason)
        self._is_refusing = True
        self.queue.refuse(reason)
        time.sleep(RETRY_SECONDS)
