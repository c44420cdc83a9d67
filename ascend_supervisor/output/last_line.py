"""A line below all others on a terminal, drawn over itself, of which nothing stays.

The cursor stays at its first character. So a terminal that folds it, because the window became
narrower, keeps the cursor where the line begins, and all of it is erased.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

Words = Callable[[int], str]
"""The line for a window of so many columns; printable, and not wider than that."""

ERASE = b"\r\x1b[J"
"""To the start of the line; erase from there to the end of the screen (ECMA-48, VT100)."""
USUAL_COLUMNS = 80
"""For a terminal that does not know how wide it is (0), such as a serial line."""


class LastLine:
    """On the terminal ``fd``; on anything else there is never one.

    The writing thread calls ``drawing`` after every ``change`` that returned true, and writes what
    ``erasure`` returns before it writes anything else.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = threading.Lock()
        self._words: Words | None = None
        self._is_awaited = False
        self._is_shown = False

    def change(self, words: Words | None) -> bool:
        """Whether to draw it: not if an earlier change is not drawn yet, or nothing changes."""
        with self._lock:
            if self._is_awaited or words is self._words is None:
                self._words = words
                return False
            self._words = words
            self._is_awaited = True
            return True

    def drawing(self, at_line_start: bool) -> bytes:
        """What draws the line as it is now, over what is shown of it.

        If the cursor is not at the start of a line, a line of a rank is not whole yet: then nothing
        is drawn.
        """
        with self._lock:
            self._is_awaited = False
            words = self._words
        columns = columns_of(self._fd) if words and at_line_start else 0
        line = words(columns).encode(errors="backslashreplace") if words and columns else b""
        erasure = self.erasure()
        self._is_shown = bool(line)
        return erasure + line + b"\r" if line else erasure

    def erasure(self) -> bytes:
        """What erases the line; nothing if it is not shown."""
        was_shown, self._is_shown = self._is_shown, False
        return ERASE if was_shown else b""


def columns_of(fd: int) -> int:
    """How many characters may be written in a line; 0 where no line may be drawn.

    That is anything but a terminal, and a terminal on which a shell has put us into the background.
    """
    try:
        columns = os.get_terminal_size(fd).columns or USUAL_COLUMNS
    except OSError:
        return 0
    return columns - 1 if _is_in_foreground(fd) else 0  # some wrap after the last column


def _is_in_foreground(fd: int) -> bool:
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:  # it is not the terminal of our session
        return True
