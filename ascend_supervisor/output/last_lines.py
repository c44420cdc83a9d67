"""The last lines that a process has written, how much it was, and when; values."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field

from ascend_supervisor.untrusted_text import lines_in

Chunk = bytes
"""A part of the output; ``Activity.bytes`` hides the builtin name there."""
TAIL_BYTES = 64 * 1024
"""How much of the end is kept, to find why a process failed: others may write after it."""
KEPT_BYTES = 2 * TAIL_BYTES
"""How much is kept at most, because it is not cut each time: a rank may write byte by byte."""
LINE_BYTES = 8 * 1024
"""How much of the end is searched for the last line."""


def to_nobody() -> None:
    """Nobody waits for output."""


class Activity(Struct):
    """How many ``bytes`` a process has written, the last at ``spoke_at`` (the clock's seconds).

    If it has written nothing, ``spoke_at`` is just before its start. It wrote first
    at ``first_at``; None if it has not. ``has_ended`` is false for workers that a launcher started,
    whatever became of them. ``tell`` is called after each change; one who waits for output
    replaces it.
    """

    spoke_at: float
    bytes: int = 0
    has_ended: bool = False
    tail: bytearray = field(default_factory=bytearray)
    tell: Callable[[], None] = to_nobody
    first_at: float | None = None

    def note(self, size: int, now: float) -> None:
        """Count ``size`` bytes that were written but not read."""
        self.bytes += size
        self.first_at = now if self.first_at is None else self.first_at
        self.spoke_at = now
        self.tell()

    def take(self, chunk: Chunk, now: float) -> None:
        """Count ``chunk``, and keep the end of it."""
        self.tail += chunk[-TAIL_BYTES:]
        if len(self.tail) > KEPT_BYTES:
            del self.tail[:-TAIL_BYTES]
        self.note(len(chunk), now)

    def since(self, count: int, most: int = KEPT_BYTES) -> Chunk:
        """The last ``most`` bytes of what was read after the first ``count``, as far as kept."""
        size = min(self.bytes - count, most)
        return bytes(self.tail[-size:]) if size > 0 else b""

    @property
    def last_lines(self) -> tuple[str, ...]:
        """The last lines of what was read so far."""
        return lines_in(self.tail[-TAIL_BYTES:])

    @property
    def last_line(self) -> str:
        """The last one that is not blank; empty if there is none. It may hold escape sequences."""
        lines = lines_in(self.tail[-LINE_BYTES:])
        return next((line for line in reversed(lines) if line.strip()), "")
