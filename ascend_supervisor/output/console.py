"""Our stdout, written by a thread, because its reader may stop reading.

Events are never dropped. Rank output is dropped, and counted, if the reader is slow; the rank's log
has it. If we are slow, the rank waits. Lines are rendered in the thread that reads them: rendering
in the writing thread halved the throughput, because both compete for the GIL.
"""

from __future__ import annotations

import errno
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count

import anyio
from msgspec import Struct

from ascend_supervisor.files.writer_thread import Writer
from ascend_supervisor.output.last_line import LastLine, Words
from ascend_supervisor.output.stream import Stream

MIRROR_BYTES = 8 * 1024 * 1024
"""How much rank output may be queued for the reader."""
LAST_BYTES = 64 * 1024 * 1024
"""The same for output left in a rank's pipe at its end, which is taken without waiting."""
READER_SECONDS = 0.5
"""A reader that has kept ranks waiting for this long is slow."""
LOOK_SECONDS = 0.1
"""How often we check, meanwhile, whether the wait is for the reader."""
RETRY_SECONDS = 0.2
"""How often a write that a disk refused is retried."""
TOO_MUCH = "the ranks left more in their pipes at their end than can wait for our stdout"
SLOW_READER = "slow reader"
GONE = frozenset({errno.EPIPE, errno.ECONNRESET, errno.EBADF})
"""The reader is gone for good; all other errors may pass."""
CUT = b" ...(cut)...\n"
"""Ends a line of which only the beginning was shown."""

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


class _Said(Struct, frozen=True):
    """Lines of a rank; ``next_seq`` is the number of the line that follows."""

    shown: Rendered
    next_seq: int
    ends: Callable[[Rendered], int]
    dropped: Dropped


class Console:
    """Writes to ``fd``. ``refused`` is called, in the writing thread, when a disk begins to refuse.

    Only this counts ``seq``. Only ``room`` (0.5 s) and ``finish`` wait for the reader.
    """

    def __init__(self, fd: int, refused: Callable[[str], None] = lambda _: None) -> None:
        self._seq = 0
        self._refused = refused
        self._stream = Stream(fd)
        self._limit = MIRROR_BYTES
        self._kept_waiting = 0.0
        self._looked_at = 0.0
        self._told: Counter[Dropped] = Counter()
        # The writing thread's own:
        self._next_seq = 0
        self._at_line_start = True
        self._last_line = LastLine(fd)
        self._gone = False
        self._refusing = False
        self._dropping = False
        self._dropped: Counter[Dropped] = Counter()
        """How many lines of a rank ``drop_output`` has dropped; it only grows."""
        self._writer: Writer[Plain | Numbered | _Said | LastLine] = Writer(
            self._write, f"console {fd}"
        )

    def put(self, line: Plain | Numbered) -> None:
        """Write a line of ours, from any thread; it is never dropped."""
        if isinstance(line, Numbered):
            self._seq += 1
        self._writer.put(line, len(line.line))

    def keep_last(self, words: Words | None) -> None:
        """Show ``words`` below all lines of a terminal, until the next output; None: no more."""
        if self._last_line.change(words):
            self._writer.put(self._last_line)

    def show(self, render: Render, ends: Callable[[Rendered], int], dropped: Dropped) -> Rendered:
        """Write rank output if there is no ``obstacle``; returns the rendered lines.

        ``dropped`` gets the number of lines that ``ends`` counts in any dropped part. Exceptions of
        ``render`` are raised here; then nothing is shown.
        """
        numbers = count(self._seq)
        shown = render(numbers)
        if not shown:
            return shown
        if self._writer.queued <= MIRROR_BYTES:
            self._limit = MIRROR_BYTES
            self._kept_waiting = 0.0
            self._looked_at = time.monotonic()
        self._seq = next(numbers)
        self._writer.put(_Said(shown, self._seq, ends, dropped), len(shown))
        return shown

    @property
    def obstacle(self) -> str | None:
        """Why rank output must be dropped now; None if it need not be."""
        if (queued := self._writer.queued) <= self._limit:
            return None
        if refused := self._why_refused():
            return refused
        if self._limit < MIRROR_BYTES or self._writer.obstacle():
            return SLOW_READER
        return TOO_MUCH if queued > LAST_BYTES else None

    async def room(self) -> None:
        """Return when rank output can be shown, or must be dropped.

        This waits until we have written the queue, but not for a slow reader.
        """
        while self._writer.queued > MIRROR_BYTES and not self.obstacle:
            with anyio.move_on_after(LOOK_SECONDS):
                await self._writer.below(MIRROR_BYTES // 2)  # not a bit at a time
            if self._writer.queued > MIRROR_BYTES:
                self._look()

    async def finish(self) -> bool:
        """Wait until all is written; False if the reader stalls for too long or is gone.

        Data that a disk refused is tried once more.
        """
        if self._writer.refusal:
            self._writer.refuse(None)
        return await self._writer.below(0) and not self._gone

    def drop_output(self) -> None:
        """Drop rank output that is not written yet, except the line that is being written."""
        self._dropping = True

    def tell_dropped(self) -> None:
        """Report what ``drop_output`` has dropped, as far as the writing thread has come."""
        dropped = self._dropped.copy()
        for tell, lines in (dropped - self._told).items():
            tell(lines, self._why_refused() or SLOW_READER)
        self._told = dropped

    def _why_refused(self) -> str | None:
        refusal = self._writer.refusal
        return None if refusal is None else f"our stdout cannot be written: {refusal}"

    def _look(self) -> None:
        """Add up how long the reader has kept us waiting; after READER_SECONDS it is slow.

        One look adds little, however late it comes: we may have been stopped ourselves.
        """
        now = time.monotonic()
        if self._stream.waiting:
            self._kept_waiting += min(now - self._looked_at, 2 * LOOK_SECONDS)
        self._looked_at = now
        if self._kept_waiting > READER_SECONDS:
            self._limit = MIRROR_BYTES // 2  # it has to take this much before anything is shown

    def _write(self, item: Plain | Numbered | _Said | LastLine) -> None:
        if isinstance(item, LastLine):
            self._steer(item.drawing(self._at_line_start))
            return
        self._steer(self._last_line.erasure())
        if isinstance(item, _Said):
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
        while view and not self._gone:
            view = view[self._write_some(view) :]

    def _write_said(self, said: _Said) -> None:
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
        """The end of the partly written line; ``done`` if there is no such line or no end."""
        return done if self._at_line_start else shown.find(b"\n", done) + 1 or done

    def _write_some(self, data: memoryview) -> int:
        """Write a part of it; returns its size, or 0 after a refusal or without a reader."""
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
