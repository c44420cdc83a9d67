"""Our stdout, written by a thread, because its reader may stop reading.

Events are never dropped. Rank output is dropped, and counted, if the reader is slow; the rank's log
has it. If we are slow, the rank waits. Lines are rendered in the thread that reads them: rendering
in the writing thread halved the throughput, because both compete for the GIL.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from itertools import count

import anyio

from ascend_supervisor.output.console_thread import (
    ConsoleThread,
    Dropped,
    Numbered,
    Plain,
    Render,
    Rendered,
    Said,
)
from ascend_supervisor.output.footer import Drawing, Spot

MIRROR_BYTES = 8 * 1024 * 1024
"""How much rank output may be queued for the reader."""
LAST_BYTES = 64 * 1024 * 1024
"""The same for output left in a rank's pipe at its end, which is taken without waiting."""
READER_SECONDS = 0.5
"""A reader that has kept ranks waiting for this long is slow."""
LOOK_SECONDS = 0.1
"""How often we check, meanwhile, whether the wait is for the reader."""
TOO_MUCH = "the ranks left more in their pipes at their end than can wait for our stdout"
SLOW_READER = "slow reader"


class Console:
    """Writes to ``fd``. ``refused`` is called, in the writing thread, when a disk begins to refuse.

    Only this counts ``seq``. Only ``room`` (0.5 s) and ``finish`` wait for the reader.
    """

    def __init__(self, fd: int, refused: Callable[[str], None] = lambda _: None) -> None:
        self._seq = 0
        self._thread = ConsoleThread(fd, refused)
        self._queue = self._thread.queue
        self._stream = self._thread.stream
        self._limit = MIRROR_BYTES
        self._kept_waiting = 0.0
        self._looked_at = 0.0
        self._told: Counter[Dropped] = Counter()

    def put(self, line: Plain | Numbered) -> None:
        """Write a line of ours, from any thread; it is never dropped."""
        if isinstance(line, Numbered):
            self._seq += 1
        self._queue.put(line, len(line.line))

    def keep(self, place: Spot, words: Drawing | None) -> None:
        """Show ``words`` below all lines of a terminal, in this place there; None: no more."""
        if self._thread.footer.change(place, words):
            self._queue.put(self._thread.footer)

    def show(self, render: Render, ends: Callable[[Rendered], int], dropped: Dropped) -> Rendered:
        """Write rank output if there is no ``obstacle``; returns the rendered lines.

        ``dropped`` gets the number of lines that ``ends`` counts in any dropped part. Exceptions of
        ``render`` are raised here; then nothing is shown.
        """
        numbers = count(self._seq)
        shown = render(numbers)
        if not shown:
            return shown
        if self._queue.queued <= MIRROR_BYTES:
            self._limit = MIRROR_BYTES
            self._kept_waiting = 0.0
            self._looked_at = time.monotonic()
        self._seq = next(numbers)
        self._queue.put(Said(shown, self._seq, ends, dropped), len(shown))
        return shown

    @property
    def is_behind(self) -> bool:
        """Whether ranks have to wait until more of the queue is written."""
        return self._queue.queued > MIRROR_BYTES

    @property
    def obstacle(self) -> str | None:
        """Why rank output must be dropped now; None if it need not be."""
        if (queued := self._queue.queued) <= self._limit:
            return None
        if refused := self._why_refused():
            return refused
        if self._limit < MIRROR_BYTES or self._queue.obstacle():
            return SLOW_READER
        return TOO_MUCH if queued > LAST_BYTES else None

    async def room(self) -> None:
        """Return when rank output can be shown, or must be dropped.

        This waits until we have written the queue, but not for a slow reader.
        """
        while self._queue.queued > MIRROR_BYTES and not self.obstacle:
            with anyio.move_on_after(LOOK_SECONDS):
                await self._queue.below(MIRROR_BYTES // 2)  # not a bit at a time
            if self._queue.queued > MIRROR_BYTES:
                self._look()

    async def finish(self) -> bool:
        """Wait until all is written; False if the reader stalls for too long or is gone.

        Data that a disk refused is tried once more.
        """
        if self._queue.refusal:
            self._queue.refuse(None)
        return await self._queue.below(0) and not self._thread.is_gone

    def drop_output(self) -> None:
        """Drop rank output that is not written yet, except the line that is being written."""
        self._thread.drop_output()

    def tell_dropped(self) -> None:
        """Report what ``drop_output`` has dropped, as far as the writing thread has come."""
        dropped = self._thread.dropped
        for tell, lines in (dropped - self._told).items():
            tell(lines, self._why_refused() or SLOW_READER)
        self._told = dropped

    def _why_refused(self) -> str | None:
        refusal = self._queue.refusal
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
