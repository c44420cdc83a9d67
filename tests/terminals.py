"""A terminal of the test's own, and what may never reach one."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading
import tty
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from unicodedata import bidirectional, category

import pyte

from tests.running import DEADLINE_SECONDS, wait_until

COLOUR = re.compile("\x1b\\[[0-9;:]*m")
BREAKS = frozenset({"Cc", "Zl", "Zp"})
BIDI = frozenset({"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"})
MARKS = frozenset("\u061c\u200e\u200f")
FORGED = "12:00:00.000 ending with exit code 0: every rank ended with 0"
"""A line of ours, if it stood at the beginning of one."""
WORDS = (
    *("\x1b]0;title\x07", "\x1b[2J\x1b[H", "\x1bPq\x1b\\", "\x1bc", "\x1b[?1049h", "\x1b[>4;1m"),
    *("\x9b2J", "\x9d0;title\x9c", "\x7f" * 9, "\x08" * 90, "\x07", "\x0e"),
    *(f"a\r{FORGED}", f"b\x0b{FORGED}", f"c\x0c\r{FORGED}", f"d\x85{FORGED}", f"e\u2028{FORGED}"),
    *("\u202eleft to right\u202c", "\u2066isolated\u2069", "\u061c\u200e\u200f"),
    *("\x1b\x1b[0m[2J", "\x1b[0\x18m", "\x1b[1", "\x1b"),
)
"""What steers a terminal, or makes it show a line of its own."""


def steering(text: str) -> set[str]:
    """The characters in ``text``, colours apart, that steer a terminal."""
    bare = COLOUR.sub("", text).replace("\n", "").replace("\t", "")
    return {
        one for one in bare if category(one) in BREAKS or bidirectional(one) in BIDI or one in MARKS
    }


class Screen:
    """Give ``stdout`` to a process; ``text`` is everything that it and others have shown there."""

    def __init__(self) -> None:
        self._master, self.stdout = pty.openpty()
        tty.setraw(self.stdout)
        self._shown = bytearray()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def text(self) -> str:
        """Everything; to be asked for once, when nobody else has the terminal any more."""
        os.close(self.stdout)
        self._reader.join(DEADLINE_SECONDS)
        assert not self._reader.is_alive()
        os.close(self._master)
        return self._shown.decode()

    def _read(self) -> None:
        with suppress(OSError):  # EIO: nobody has it open any more
            while piece := os.read(self._master, 1 << 16):
                self._shown += piece


class Terminal:
    """A terminal that people look at: a program runs in it, and ``rows`` is what they see."""

    def __init__(self, *words: str, columns: int, lines: int, environ: Mapping[str, str]) -> None:
        self._master, self._slave = pty.openpty()
        self._tell_size(columns, lines)
        self.settings = termios.tcgetattr(self._slave)
        self._screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)
        self._lock = threading.Lock()
        self.process = subprocess.Popen(
            ["setsid", "--ctty", *words],
            env=environ,
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def rows(self) -> list[str]:
        with self._lock:
            return [line.rstrip() for line in self._screen.display]

    @property
    def cursor(self) -> tuple[int, int]:
        """Its column and its row, from 0."""
        with self._lock:
            return self._screen.cursor.x, self._screen.cursor.y

    @property
    def wraps(self) -> bool:
        with self._lock:
            return pyte.modes.DECAWM in self._screen.mode

    @property
    def settings_now(self) -> list[Any]:
        """Those of the line discipline: echo, signals, ..."""
        return termios.tcgetattr(self._slave)

    def until(self, holds: Callable[[list[str]], object]) -> list[str]:
        """The rows as soon as they are as expected."""
        seen: list[str] = []

        def look() -> bool:
            seen[:] = self.rows
            return bool(holds(seen))

        try:
            wait_until(look)
        except AssertionError:
            raise AssertionError("\n".join(["the screen shows:", *seen])) from None
        return seen

    def resize(self, columns: int, lines: int) -> None:
        with self._lock:
            self._screen.resize(lines, columns)
            self._tell_size(columns, lines)

    def press(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def end(self) -> int:
        """The return code of the program; its last words may still be on their way."""
        return self.process.wait(DEADLINE_SECONDS)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._slave)
        self._reader.join(DEADLINE_SECONDS)
        assert not self._reader.is_alive()
        os.close(self._master)

    def _tell_size(self, columns: int, lines: int) -> None:
        """The kernel sends SIGWINCH to the program."""
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def _read(self) -> None:
        with suppress(OSError):  # EIO: nobody has it open any more
            while piece := os.read(self._master, 1 << 16):
                with self._lock:
                    self._stream.feed(piece)


class Window:
    """A terminal of ``columns`` and ``rows``, as somebody sees it; give ``stdout`` to a process."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self._master, self.stdout = pty.openpty()
        tty.setraw(self.stdout)
        self._lock = threading.Lock()
        self._screen = pyte.HistoryScreen(columns or 80, rows or 24, history=10_000)
        self._screen.set_mode(pyte.modes.LNM)  # the terminal is raw, and LF begins a line
        self._stream = pyte.ByteStream(self._screen)
        self._shown = bytearray()
        self._is_closed = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._tell_size(columns, rows)
        self._reader.start()

    @property
    def lines(self) -> list[str]:
        """The lines that are shown or were scrolled away, without empty ones."""
        with self._lock:
            gone = [
                "".join(row[column].data for column in range(self._screen.columns))
                for row in self._screen.history.top
            ]
            return [line.rstrip() for line in (*gone, *self._screen.display) if line.strip()]

    @property
    def data(self) -> bytes:
        """All bytes that were written so far."""
        with self._lock:
            return bytes(self._shown)

    def resize(self, columns: int, rows: int) -> None:
        with self._lock:
            self._screen.resize(rows, columns)
        self._tell_size(columns, rows)

    def close(self) -> None:
        """Read to the end, when nobody else has the terminal any more; once more does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        os.close(self.stdout)
        self._reader.join(DEADLINE_SECONDS)
        assert not self._reader.is_alive()
        os.close(self._master)

    def _tell_size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.stdout, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _read(self) -> None:
        with suppress(OSError):  # EIO: nobody has it open any more
            while piece := os.read(self._master, 1 << 16):
                with self._lock:
                    self._shown += piece
                    self._stream.feed(piece)
