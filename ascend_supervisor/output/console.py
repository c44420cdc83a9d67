"""Our stdout, written by a thread, because whoever reads it may stop reading.

Events are never dropped. What a rank says is dropped, and counted, where the reader is slow: its
log has it. Where it is we who are slow, the rank waits for our processor. Lines are rendered where
they are read; rendering in the writing thread halved the throughput, for the two fight over the
GIL.
"""

from __future__ import annotations

import errno
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import anyio

from ascend_supervisor.files.writer import Writer
from ascend_supervisor.output.stream import Stream

MIRROR_BYTES = 8 * 1024 * 1024
"""How much of the ranks' output may wait for the reader."""
LAST_BYTES = 64 * 1024 * 1024
"""The same for what a rank has left in its pipe at its end: it is taken at once, without a wait."""
READER_SECONDS = 0.5
"""A reader that has kept ranks waiting for so long is slow."""
LOOK_SECONDS = 0.1
"""How often it is looked, meanwhile, whether it is the reader who is waited for."""
RETRY_SECONDS = 0.2
"""How often a disk that refused is asked again."""
TOO_MUCH = "the ranks left more in their pipes at their end than can wait for our stdout"
SLOW_READER = "slow reader"
GONE = frozenset({errno.EPIPE, errno.ECONNRESET, errno.EBADF})
"""Nobody will ever read this; all other errors may pass."""
CUT = b" ...(cut)...\n"
"""Ends a line of which only the beginning was shown."""

Rendered = bytes | bytearray
"""Lines as they are written; whoever hands them over does not change them any more."""
Dropped = Callable[[int, str], None]
"""Is told how many lines of a rank were dropped, and why."""


@dataclass(frozen=True, slots=True)
class Plain:
    """A line of ours."""

    line: bytes


@dataclass(frozen=True, slots=True)
class Numbered:
    """A JSON object of ours on a line; ``seq`` becomes its first key when it is written."""

    line: bytes


@dataclass(frozen=True, slots=True)
class Said:
    """Lines of a rank; ``ends`` counts those that are dropped where a part of it is.

    ``next_seq`` is the number of the line that follows.
    """

    shown: Rendered
    next_seq: int
    ends: Callable[[Rendered], int]
    dropped: Dropped


class Console:
    """Writes to ``fd``. ``refused`` hears, in the writing thread, why a disk begins to refuse.

    ``seq`` is the number of the next line that is put: whoever renders lines that carry it needs
    it. Nothing here waits for the reader but ``room`` (0.5 s) and ``finish``.
    """

    def __init__(self, fd: int, refused: Callable[[str], None] = lambda _: None) -> None:
        self.seq = 0
        self._refused = refused
        self._stream = Stream(fd)
        self._limit = MIRROR_BYTES
        self._kept_waiting = 0.0
        self._looked_at = 0.0
        # The writing thread's own:
        self._next_seq = 0
        self._at_line_start = True
        self._gone = False
        self._refusing = False
        self._dropping = False
        self._dropped: Counter[Dropped] = Counter()
        self._writer: Writer[Plain | Numbered | Said] = Writer(self._write, f"console {fd}")

    def put(self, line: Plain | Numbered) -> None:
        """Write a line of ours, from whatever thread; it is never dropped."""
        if isinstance(line, Numbered):
            self.seq += 1
        self._writer.put(line, len(line.line))

    def show(self, said: Said) -> None:
        """Write what a rank said, where there is no ``obstacle``."""
        if self._writer.queued <= MIRROR_BYTES:
            self._limit = MIRROR_BYTES
            self._kept_waiting = 0.0
            self._looked_at = time.monotonic()
        self.seq = said.next_seq
        self._writer.put(said, len(said.shown))

    @property
    def obstacle(self) -> str | None:
        """Why what ranks say must be dropped now, if it must."""
        queued = self._writer.queued
        if queued <= self._limit:
            return None
        if refused := self._why_refused():
            return refused
        if self._limit < MIRROR_BYTES or self._writer.obstacle():
            return SLOW_READER
        return TOO_MUCH if queued > LAST_BYTES else None

    async def room(self) -> None:
        """Return when what a rank says can be shown, or must be dropped.

        It is waited for as long as it takes us to write what there is, but not for a slow reader.
        """
        while self._writer.queued > MIRROR_BYTES and not self.obstacle:
            with anyio.move_on_after(LOOK_SECONDS):
                await self._writer.below(MIRROR_BYTES // 2)  # not a bit at a time
            if self._writer.queued > MIRROR_BYTES:
                self._look()

    async def finish(self) -> bool:
        """Wait until all is written; False when the reader has stood still for too long, or gone.

        What a disk has refused is tried once more.
        """
        if self._writer.refusal:
            self._writer.refuse(None)
        return await self._writer.below(0) and not self._gone

    def drop_output(self) -> None:
        """Drop what ranks said and is not written yet, except the line that is being written."""
        self._dropping = True

    def tell_dropped(self) -> None:
        """Tell of what ``drop_output`` has dropped, up to what the reader was waited for."""
        dropped, self._dropped = self._dropped, Counter()
        for tell, lines in list(dropped.items()):
            if lines:
                tell(lines, self._why_refused() or SLOW_READER)

    def _why_refused(self) -> str | None:
        refusal = self._writer.refusal
        return None if refusal is None else f"our stdout cannot be written: {refusal}"

    def _look(self) -> None:
        """Note how long the reader has kept us waiting, and find it slow where that is long.

        A look counts little, however late it comes: we may have stood still ourselves.
        """
        now = time.monotonic()
        if self._stream.waiting:
            self._kept_waiting += min(now - self._looked_at, 2 * LOOK_SECONDS)
        self._looked_at = now
        if self._kept_waiting > READER_SECONDS:
            self._limit = MIRROR_BYTES // 2  # it has to take this much before anything is shown

    def _write(self, item: Plain | Numbered | Said) -> None:
        if isinstance(item, Said):
            self._write_said(item)
            return
        line = item.line
        if isinstance(item, Numbered):
            line = b'{"seq":%d,%b' % (self._next_seq, line[1:])
            self._next_seq += 1
        self._insist(line if self._at_line_start else b"\n" + line)

    def _insist(self, data: bytes) -> None:
        view = memoryview(data)
        while view and not self._gone:
            view = view[self._write_some(view) :]

    def _write_said(self, said: Said) -> None:
        view = memoryview(said.shown)
        done, end = 0, len(view)
        is_cut = False
        while done < end and not self._gone:
            if self._dropping and not is_cut:
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
        """Where the line ends of which a part is written; here, if there is none, or no end."""
        return done if self._at_line_start else shown.find(b"\n", done) + 1 or done

    def _write_some(self, data: memoryview) -> int:
        """Write a part of it, of that size; 0 when that was refused, or nobody reads any more."""
        try:
            size = self._stream.write(data)
        except OSError as error:
            if error.errno in GONE:
                self._gone = True
            else:
                self._refuse(error.strerror or str(error))
            return 0
        self._refusing = False
        if self._writer.refusal:
            self._writer.refuse(None)
        self._at_line_start = data[size - 1] == ord("\n")
        self._writer.progressed(size)
        return size

    def _refuse(self, reason: str) -> None:
        if not self._refusing:
            self._refused(reason)
        self._refusing = True
        self._writer.refuse(reason)
        time.sleep(RETRY_SECONDS)
