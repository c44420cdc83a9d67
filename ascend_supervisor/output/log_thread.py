"""The log of one process, written in a thread; what the disk does not take is counted at its place.

While the disk makes progress, however slowly, whoever wants to write more waits. When it refuses,
or a write does not return, what exceeds the buffer is discarded: no rank waits for such a disk.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol

from ascend_supervisor.files.writer import STALL_SECONDS, Writer
from ascend_supervisor.output.log_file import LogFile

BUFFER_BYTES = 1024 * 1024
"""What is kept for a disk that does not write; beyond it output is discarded and counted."""
RETRY_SECONDS = 0.2
"""How often a disk that refused is asked again."""


class Listener(Protocol):
    """Hears of what befalls a log."""

    def blocked(self, reason: str) -> None:
        """From the event loop's thread: the disk does not take what the log is to hold."""

    def lost(self, size: int, reason: str) -> None:
        """From the writer's thread: so many bytes are missing at this place."""

    def rotated(self) -> None:
        """From the writer's thread: a new file was begun."""


@dataclass(slots=True)
class Gap:
    """Output that was discarded at this place because there was no room for it."""

    reason: str
    size: int = 0


@dataclass(frozen=True, slots=True)
class Notice:
    """A line of our own; it starts a line, whatever stands before it."""

    line: bytes


class Step(Enum):
    """What is done with the file itself."""

    OPEN = "make it"
    REOPEN = "go on in a new one of the same name"
    CLOSE = "nothing follows: give the descriptor back"


Item = bytes | Gap | Notice | Step


class LogWriter:
    """Owns a log file. ``lost_line`` makes the line that stands where bytes are missing.

    A disk that has written nothing for ``stall_seconds`` makes no progress.
    """

    def __init__(
        self,
        file: LogFile,
        listener: Listener,
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
        self._writer: Writer[Item] = Writer(
            self._write, f"log {file.path.name}", stall_seconds=stall_seconds
        )
        self._writer.put(Step.OPEN)

    @property
    def path(self) -> Path:
        return self._file.path

    async def opened(self) -> None:
        """Wait until the file is there, or the disk is silent, which is told; raises OSError.

        A silent disk may answer later: then nothing is lost.
        """
        if not self._opened.done():
            await self._writer.below(0)
        if self._opened.done():
            self._opened.result()
        else:
            self.look()

    def look(self) -> None:
        """Tell, once, of a disk that has written nothing for ``stall_seconds``.

        It is told again when the disk has written in between. To be called every TICK_SECONDS, or
        whoever says little finds out at the end.
        """
        if stall := self._writer.stall():
            self._tell_blocked(stall)
        elif not self._writer.refusal:
            self._told_blocked = False

    def close(self) -> None:
        """Nothing follows: the thread ends when all is written, or when it was refused to open."""
        self._writer.close()

    def take(self, chunk: bytes) -> None:
        """Queue ``chunk``, or discard and count it where the disk is stuck and the buffer full."""
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
        """Wait until all is written, or nothing moves any more: then the rest is counted as lost.

        What the disk has refused is tried once more. Takes at most STALL_SECONDS without progress.
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

    def _write(self, item: Item) -> None:
        if self._given_up:  # what has been told as lost is not to come after all
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
            self._file.close()  # it may have been made, on a disk that has no room for a line
            self._opened.set_exception(error)
        else:
            self._opened.set_result(None)

    def _reopen(self) -> None:
        with suppress(OSError):  # told by the write that follows and cannot
            self._file.reopen()

    def _end(self) -> None:
        with suppress(OSError):  # a file server may refuse now what it has taken before
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
                    if last == self._finishing:  # else the answer is older than the question
                        self._writer.refuse(error.strerror or str(error))
                time.sleep(RETRY_SECONDS)
            else:
                break
        if self._writer.refusal:
            self._writer.refuse(None)
        if self._file.rotations != rotations:
            self._listener.rotated()
        return written
