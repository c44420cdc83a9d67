"""Copies one rank's output to the console: whole lines, and an exact count of dropped ones."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

from ascend_supervisor.output.console import Console
from ascend_supervisor.output.console_thread import Dropped, Render, Rendered
from ascend_supervisor.output.text_lines import MOST_SECONDS, UNFINISHED_SECONDS

CHUNK_BYTES = 256 * 1024
"""What is taken at once at most."""
RENDERED_BYTES = 4 * 1024 * 1024
"""How much is rendered at once at most: rendering blocks the event loop."""
LEAST_BYTES = 4096


class Lines(Protocol):
    """One rank's output as the console shows it; keeps the line that is not complete yet.

    Lines that carry ``seq`` take it from ``numbers``. After an exception nothing was shown, and
    the next chunk can follow.
    """

    def render(self, chunk: bytes, moment: float, numbers: Iterator[int]) -> Rendered:
        """``chunk``, read at ``moment`` (seconds since the epoch)."""

    @property
    def growth(self) -> float:
        """After each showing of one ``unfinished`` line the next waits so many times as long.

        0: it is not shown before its end.
        """

    def unfinished(self) -> Rendered:
        """What is to be shown of the incomplete line now; it goes on."""

    def rest(self, moment: float, numbers: Iterator[int]) -> Rendered:
        """The incomplete line, since nothing follows it."""

    def cut(self) -> Rendered:
        """Forget the incomplete line, whose rest is dropped; returns the text that ends it."""

    def ends(self, shown: Rendered) -> int:
        """How many of the rank's lines end in ``shown``, which begins and ends with a line."""


class Mirror:
    """Writes a rank's output to ``console``; ``dropped`` gets the number of dropped lines.

    A line of which only the beginning was shown counts as dropped; no other text is joined to it.
    ``before`` is called before anything is shown: it may write what belongs above it.
    ``failed`` gets the first exception in rendering: the chunk is lost, and the job goes on.
    """

    def __init__(
        self,
        console: Console,
        lines: Lines,
        dropped: Dropped,
        failed: Callable[[Exception], None],
        before: Callable[[], None] = lambda: None,
    ) -> None:
        self._console = console
        self._lines = lines
        self._tell_dropped = dropped
        self._tell_failed = failed
        self._before = before
        self._has_failed = False
        self._in_line = False
        self._why_dropping: str | None = None
        self._dropped = 0
        self._patience = UNFINISHED_SECONDS
        self._alarm: asyncio.TimerHandle | None = None
        self.portion = CHUNK_BYTES

    async def room(self) -> None:
        """Return when ``take`` may be called; what is taken before that may be dropped."""
        await self._console.room()

    def take(self, chunk: bytes) -> None:
        """Show ``chunk``, or drop it if the reader is too slow."""
        if obstacle := self._console.obstacle:
            self._drop(chunk, obstacle)
            return
        chunk = self._after_dropped_line(chunk)
        if chunk:
            self._tell()
            data = self._show(partial(self._lines.render, chunk, time.time()), self._lines.ends)
            self._in_line = not chunk.endswith(b"\n")
            self._watch(has_ended=b"\n" in chunk)
            growth = max(len(data) / len(chunk), 1.0)  # short lines grow a hundredfold
            self.portion = min(max(int(RENDERED_BYTES / growth), LEAST_BYTES), CHUNK_BYTES)

    def end(self) -> None:
        """Nothing follows."""
        self._calm()
        if self._why_dropping:
            self._dropped += self._in_line
            self._tell()
            return
        self._show(partial(self._lines.rest, time.time()), lambda _: 1)

    def _watch(self, *, has_ended: bool) -> None:
        """See to it that the incomplete line, if there is one, is shown in time."""
        if has_ended:
            self._calm()
        if self._in_line and self._alarm is None and self._lines.growth:
            loop = asyncio.get_running_loop()
            self._alarm = loop.call_later(self._patience, self._show_unfinished)

    def _calm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = None
        self._patience = UNFINISHED_SECONDS

    def _show_unfinished(self) -> None:
        self._alarm = None
        if self._console.is_behind:  # we have not read what the rank has written since
            self._watch(has_ended=False)
            return
        self._patience = min(self._patience * self._lines.growth, MOST_SECONDS)
        self._show(lambda _: self._lines.unfinished(), lambda _: 0)

    def _show(self, render: Render, ends: Callable[[Rendered], int]) -> Rendered:
        """Show it, and return it; empty if there is nothing, or if rendering fails."""
        self._before()
        try:
            return self._console.show(render, ends, self._tell_dropped)
        except Exception as error:  # noqa: BLE001  (whatever it is, the job goes on)
            if not self._has_failed:
                self._has_failed = True
                self._tell_failed(error)
            return b""

    def _drop(self, chunk: bytes, why: str) -> None:
        if not self._why_dropping:
            self._why_dropping = why
            self._calm()
            if self._in_line:
                end = self._lines.cut()
                self._console.show(lambda _: end, lambda _: 0, self._tell_dropped)
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
