"""Lines below all others on a terminal, drawn over themselves, of which nothing stays.

The cursor stays at their first character. So a terminal that folds them, because the window became
narrower, keeps the cursor where they begin, and all of them are erased.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

Drawing = Callable[[int], str]
"""A line for a window of so many columns; printable but for colours, and not wider than that."""
Spot = tuple[int, int]
"""Lines are in the order of their places."""

WAIT: Spot = (2, 0)
"""The place of the line that says what is waited for: the last."""

ERASE = b"\r\x1b[J"
"""To the start of the line; erase from there to the end of the screen (ECMA-48, VT100)."""
UP = b"\x1b[%dA\r"
"""So many lines up, to the start of the line."""
USUAL_COLUMNS, USUAL_LINES = 80, 24
"""For a terminal that does not know its size (0), such as a serial line."""


class Footer:
    """On the terminal ``fd``; on anything else there is never one.

    The writing thread calls ``drawing`` after every ``change`` that returned true, and after
    everything else that it has written; before that it writes what ``erasure`` returns.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = threading.Lock()
        self._words: dict[Spot, Drawing] = {}
        self._is_awaited = False
        self._is_shown = False

    def change(self, place: Spot, words: Drawing | None) -> bool:
        """Whether to draw it: not if an earlier change is not drawn yet, or nothing changes."""
        with self._lock:
            if words is None and place not in self._words:
                return False
            if words is None:
                del self._words[place]
            else:
                self._words[place] = words
            if self._is_awaited:
                return False
            self._is_awaited = True
            return True

    def drawing(self, *, at_line_start: bool) -> bytes:
        """What draws the lines as they are now, over what is shown of them.

        If the cursor is not at the start of a line, a line of a rank is not whole yet: then nothing
        is drawn.
        """
        with self._lock:
            self._is_awaited = False
            words = [self._words[place] for place in sorted(self._words)]
        erasure = self.erasure()
        columns = columns_of(self._fd) if words and at_line_start else 0
        if not columns:
            return erasure
        shown = _shortened([one(columns) for one in words], lines_of(self._fd) // 2)
        self._is_shown = True
        up = UP % (len(shown) - 1) if len(shown) > 1 else b"\r"
        return erasure + "\r\n".join(shown).encode(errors="backslashreplace") + up

    def erasure(self) -> bytes:
        """What erases the lines; nothing if none is shown."""
        was_shown, self._is_shown = self._is_shown, False
        return ERASE if was_shown else b""


def _shortened(lines: list[str], most: int) -> list[str]:
    """The last lines, at most so many and at least one, without those that are empty."""
    return [line for line in lines if line][-max(most, 1) :] or [""]


def columns_of(fd: int) -> int:
    """How many characters may be written in a line; 0 where no line may be drawn.

    That is anything but a terminal, and a terminal on which a shell has put us into the background.
    """
    try:
        columns = os.get_terminal_size(fd).columns or USUAL_COLUMNS
    except OSError:
        return 0
    return columns - 1 if _is_in_foreground(fd) else 0  # some wrap after the last column


def lines_of(fd: int) -> int:
    """The height of the window."""
    return os.get_terminal_size(fd).lines or USUAL_LINES


def _is_in_foreground(fd: int) -> bool:
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:  # it is not the terminal of our session
        return True
