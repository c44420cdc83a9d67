"""The log of one process, written in a thread; a line marks and counts bytes that are missing.

While the disk makes progress, however slowly, the rank waits for it. When it refuses, or a write
does not return, output beyond the buffer is discarded: no rank waits for such a disk.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from ascend_supervisor.files.regular_file import reason_of
from ascend_supervisor.files.writer_thread import STALL_SECONDS, Writer
from ascend_supervisor.output.log_file import LogFile


class Gap(Struct):
    """Output that was discarded at this place because there was no room for it."""

    reason: str
    size: int = 0


class Notice(Struct, frozen=True):
    """A line of our own; it starts a line, whatever stands before it."""

    line: bytes


class Step(Enum):
    """What is done with the file itself."""

    OPEN = "make it"
    REOPEN = "go on in a new one of the same name"
    CLOSE = "nothing follows: give the descriptor back"


LogItem = bytes | Gap | Notice | Step


BUFFER_BYTES = 1024 * 1024
"""How much is kept while a disk does not write; more output is discarded and counted."""
RETRY_SECONDS = 0.2
"""How often a write that a disk refused is retried."""


class LogListener(Protocol):
    """Gets reports about a log."""

    def blocked(self, reason: str) -> None:
        """In the event loop's thread: the disk does not write the log."""

    def lost(self, size: int, reason: str) -> None:
        """In the writing thread: this many bytes are missing here."""

    def rotated(self) -> None:
        """In the writing thread: a new file was begun."""


class LogWriter:
    """Owns a log file. ``lost_line`` makes the line that marks missing bytes.

    A disk that has written nothing for ``stall_seconds`` makes no progress.
    """

    def __init__(
        self,
        file: LogFile,
        listener: LogListener,
        lost_line: Callable[[int, str], bytes],
        *,
        stall_seconds: float = STALL_SECONDS,
    ) -> None:
        self._file = file
        self._listener = listener
        self._lost_line = lost_line
        self._gap: Gap | None = None
        self._unwritten = 0
        self._finishing = False
        self._given_up = False
        self._told_blocked = False
        self._lock = threading.Lock()
        self._opened: Future[None] = Future()
        self._writer: Writer[LogItem] = Writer(
            self._write, f"log {file.path.name}", stall_seconds=stall_seconds
        )
        self._writer.put(Step.OPEN)

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def is_writing(self) -> bool:
        """Whether anything is not written yet."""
        return self._writer.queued > 0

    async def opened(self) -> None:
        """Wait until the file is open, or report that the disk does not answer; raises OSError.

        The disk may answer later: then nothing is lost.
        """
        if not self._opened.done():
            await self._writer.below(0)
        if self._opened.done():
            self._opened.result()
        else:
            self.look()

    def look(self) -> None:
        """Report, once, a disk that has written nothing for ``stall_seconds``.

        It is reported again if the disk has written in between. To be called every TICK_SECONDS
        while it ``is_writing``; otherwise a rank with little output would learn of it only at the
        end.
        """
        if stall := self._writer.stall():
            self._tell_blocked(stall)
        elif not self._writer.refusal:
            self._told_blocked = False

    def close(self) -> None:
        """Nothing follows: the thread ends when all is written, or the file cannot be opened."""
        self._writer.close()

    def take(self, chunk: bytes) -> None:
        """Queue ``chunk``, or discard and count it if the disk is stuck and the buffer full."""
        if self._writer.queued + len(chunk) > BUFFER_BYTES and (why := self._writer.obstacle()):
            self._discard(len(chunk), why)
        else:
            with self._lock:
                self._gap = None
                self._unwritten += len(chunk)
            self._writer.put(chunk, len(chunk))

    async def room(self) -> None:
        """Return when ``take`` may be called: when there is room, or nothing to wait for."""
        await self._writer.below(BUFFER_BYTES)

    def notice(self, line: bytes) -> None:
        """Write a line of our own."""
        self._writer.put(Notice(line), len(line))

    def reopen(self) -> None:
        self._writer.put(Step.REOPEN)

    async def finish(self) -> None:
        """Wait until all is written; without progress, count the rest as lost.

        Data that the disk refused is tried once more. Waits at most STALL_SECONDS for progress.
        """
        with self._lock:
            self._finishing = True
            if self._writer.refusal:
                self._writer.refuse(None)
        self._writer.put(Step.CLOSE)
        if not await self._writer.below(0):
            reason = self._writer.obstacle() or "the disk was too slow"
            with self._lock:
                self._given_up = True
                lost = self._unwritten
            if lost:
                self._listener.lost(lost, reason)
        self._writer.close()

    def _discard(self, size: int, reason: str) -> None:
        with self._lock:
            began = self._gap is None
            if self._gap is None:
                self._gap = Gap(reason)
                self._writer.put(self._gap)
            self._gap.size += size
            self._unwritten += size
        if began:
            self._tell_blocked(reason)

    def _tell_blocked(self, reason: str) -> None:
        if not (self._told_blocked or self._finishing):
            self._told_blocked = True
            self._listener.blocked(reason)

    def _write(self, item: LogItem) -> None:
        if self._given_up:  # what was reported as lost must not be written later
            return
        if isinstance(item, bytes):
            while item and not self._given_up:
                written = self._insist(item)
                with self._lock:
                    self._unwritten -= written
                item = item[written:]
        elif isinstance(item, Gap):
            self._close(item)
        elif isinstance(item, Notice):
            self._persist_line(item.line)
        elif item is Step.OPEN:
            self._open()
        elif item is Step.REOPEN:
            self._reopen()
        else:
            self._end()

    def _open(self) -> None:
        try:
            self._file.open()
        except OSError as error:
            self._file.close()  # it may exist, on a disk without room for one line
            self._opened.set_exception(error)
        else:
            self._opened.set_result(None)

    def _reopen(self) -> None:
        with suppress(OSError):  # the next write fails, and reports it
            self._file.reopen()

    def _end(self) -> None:
        with suppress(OSError):  # a file server may refuse now what it accepted before
            self._file.close()

    def _close(self, gap: Gap) -> None:
        with self._lock:
            if self._gap is gap:
                self._gap = None
            self._unwritten -= gap.size
        self._persist_line(self._lost_line(gap.size, gap.reason))
        self._listener.lost(gap.size, gap.reason)

    def _persist_line(self, line: bytes) -> None:
        self._persist(line if self._file.at_line_start else b"\n" + line)

    def _persist(self, data: bytes) -> None:
        while data:
            data = data[self._insist(data) :]

    def _insist(self, data: bytes) -> int:
        """Write at least a byte of ``data``, however often the disk refuses."""
        rotations = self._file.rotations
        while True:
            last = self._finishing
            try:
                written = self._file.write(data)
            except OSError as error:
                with self._lock:
                    if last == self._finishing:  # else the error is older than ``finish``
                        self._writer.refuse(reason_of(error))
                time.sleep(RETRY_SECONDS)
            else:
                break
        if self._writer.refusal:
            self._writer.refuse(None)
        if self._file.rotations != rotations:
            self._listener.rotated()
        return written
