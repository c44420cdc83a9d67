"""One rank's way to the console: whole lines, and an exact count of those that are dropped."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

from ascend_supervisor.output.console import Console, Dropped, Rendered, Said
from ascend_supervisor.output.pump import CHUNK_BYTES

RENDERED_BYTES = 4 * 1024 * 1024
"""What is rendered at once at most: meanwhile the event loop does nothing else."""
LEAST_BYTES = 4096


class Lines(Protocol):
    """One rank's output as the console shows it; keeps the line that is not complete yet.

    ``render`` and ``rest`` give the bytes to write and the number of the next line. What raises has
    shown nothing, and can go on with the next chunk.
    """

    def render(self, chunk: bytes, moment: float, seq: int) -> tuple[Rendered, int]:
        """``chunk``, read at ``moment`` (seconds since the epoch)."""

    def rest(self, moment: float, seq: int) -> tuple[Rendered, int]:
        """The incomplete line, since nothing follows it."""

    def cut(self) -> Rendered:
        """Forget the incomplete line, whose end is dropped; gives what ends its beginning."""

    def ends(self, shown: Rendered) -> int:
        """How many of the rank's lines end in ``shown``, which begins and ends with a line."""


class Mirror:
    """Gives a rank's output to ``console``; ``dropped`` is told of the lines that were dropped.

    A line of which only the beginning was shown is one of them; nothing else is joined to it.
    ``failed`` is told of the first defect in rendering: it costs the chunk, and never the job.
    """

    def __init__(
        self, console: Console, lines: Lines, dropped: Dropped, failed: Callable[[Exception], None]
    ) -> None:
        self._console = console
        self._lines = lines
        self._tell_dropped = dropped
        self._tell_failed = failed
        self._has_failed = False
        self._in_line = False
        self._why_dropping: str | None = None
        self._dropped = 0
        self.portion = CHUNK_BYTES

    async def room(self) -> None:
        """Return when ``take`` may be called; what is taken before that may be dropped."""
        await self._console.room()

    def take(self, chunk: bytes) -> None:
        """Show ``chunk``, or drop it where the reader is too slow."""
        if obstacle := self._console.obstacle:
            self._drop(chunk, obstacle)
            return
        chunk = self._after_dropped_line(chunk)
        if chunk:
            self._tell()
            data = self._show(partial(self._lines.render, chunk), self._lines.ends)
            self._in_line = not chunk.endswith(b"\n")
            growth = max(len(data) / len(chunk), 1.0)  # short lines grow a hundredfold
            self.portion = min(max(int(RENDERED_BYTES / growth), LEAST_BYTES), CHUNK_BYTES)

    def end(self) -> None:
        """Nothing follows."""
        if self._why_dropping:
            self._dropped += self._in_line
            self._tell()
            return
        self._show(self._lines.rest, lambda _: 1)

    def _show(
        self,
        rendered: Callable[[float, int], tuple[Rendered, int]],
        ends: Callable[[Rendered], int],
    ) -> Rendered:
        """Show it, and give it back; nothing where there is nothing, or rendering it fails."""
        try:
            data, seq = rendered(time.time(), self._console.seq)
        except Exception as error:  # noqa: BLE001  (whatever it is, the job goes on)
            if not self._has_failed:
                self._has_failed = True
                self._tell_failed(error)
            return b""
        if data:
            self._console.show(Said(data, seq, ends, self._tell_dropped))
        return data

    def _drop(self, chunk: bytes, why: str) -> None:
        if not self._why_dropping:
            self._why_dropping = why
            if self._in_line:
                data = self._lines.cut()
                seq = self._console.seq
                self._console.show(Said(data, seq, lambda _: 0, self._tell_dropped))
        self._dropped += chunk.count(b"\n")
        self._in_line = not chunk.endswith(b"\n")

    def _after_dropped_line(self, chunk: bytes) -> bytes:
        """``chunk`` without the end of a line whose beginning was dropped."""
        if not (self._why_dropping and self._in_line):
            return chunk
        end = chunk.find(b"\n") + 1
        if not end:
            return b""
        self._dropped += 1
        self._in_line = False
        return chunk[end:]

    def _tell(self) -> None:
        if why := self._why_dropping:
            dropped, self._dropped, self._why_dropping = self._dropped, 0, None
            self._tell_dropped(dropped, why)
