"""What waits to be written to our stdout."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

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
