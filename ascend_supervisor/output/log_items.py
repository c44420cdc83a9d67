"""What waits to be written into a log."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct


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


Item = bytes | Gap | Notice | Step
