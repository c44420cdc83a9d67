"""Whole lines from chunks that were cut anywhere, and the line that is not complete yet."""

from __future__ import annotations

from collections.abc import Callable

from ascend_supervisor.output.terminal_escapes import divided

PARTIAL_BYTES = 16 * 1024
"""An unfinished line that grows beyond this is shown in parts."""
UNFINISHED_SECONDS = 0.5
"""A line that is not finished is shown after this time."""
MOST_SECONDS = 60.0
"""The longest time until it is shown again, where that takes a line each time."""


class BegunLine:
    """``take`` chunks; ``data`` is the incomplete line, of which nothing was returned.

    ``is_shown`` says whether parts of that line were returned before ``data``.
    """

    def __init__(self, needed: Callable[[bytes], bytes] = lambda begun: begun) -> None:
        """``needed``: what must be kept of an incomplete line."""
        self._needed = needed
        self.data = b""
        self.is_shown = False

    def take(self, chunk: bytes) -> bytes:
        """The lines that are complete now; a part of a line only if it is very long."""
        if self.data:
            chunk = self.data + chunk
        end = chunk.rfind(b"\n") + 1
        if end:
            self.is_shown = False
        self.data = self._needed(chunk[end:])
        return chunk[:end] + (self.part() if len(self.data) > PARTIAL_BYTES else b"")

    def part(self) -> bytes:
        """The incomplete line so far, cut in no character and no colour; its rest goes on."""
        part, self.data = divided(self.data)
        self.is_shown = self.is_shown or bool(part)
        return part

    def forget(self) -> bool:
        """Drop it and what follows of it; returns whether a part of it was shown."""
        was_shown, self.is_shown = self.is_shown, False
        self.data = b""
        return was_shown

    def rest(self) -> bytes:
        """The incomplete line, which nothing follows."""
        rest, self.data = self.data, b""
        return rest
