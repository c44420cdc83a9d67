"""Where the answer of a command goes, and the messages beside it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from ascend_supervisor.files.standard_streams import put, tell
from ascend_supervisor.untrusted_text import printable

PROGRAM = "ascend-supervisorctl"


class Out(NamedTuple):
    """``put`` takes the answer, for stdout; ``tell`` one line, for stderr."""

    put: Callable[[bytes], None]
    tell: Callable[[str], None]

    def text(self, text: str) -> None:
        self.put(text.encode(errors="backslashreplace"))

    def line(self, text: str) -> None:
        """Put ``text`` on a line of its own, whatever is in it."""
        self.text(f"{printable(text)}\n")

    def say(self, sentence: str) -> None:
        self.tell(f"{PROGRAM}: {printable(sentence)}")


STANDARD = Out(put, tell)

GATHERED_BYTES = 64 * 1024
GATHERED_SECONDS = 0.2


class Gathered:
    """Hands over to ``to`` what was ``put`` in larger pieces: a write for each line is slow.

    So much is kept back at most, and so long where more comes; ``flush`` hands over the rest.
    """

    def __init__(self, to: Callable[[bytes], None]) -> None:
        self._to = to
        self._pieces: list[bytes] = []
        self._size = 0
        self._due = 0.0

    def put(self, piece: bytes) -> None:
        now = time.monotonic()
        if not self._pieces:
            self._due = now + GATHERED_SECONDS
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size >= GATHERED_BYTES or now >= self._due:
            self.flush()

    def flush(self) -> None:
        if self._pieces:
            gathered = b"".join(self._pieces)
            self._pieces, self._size = [], 0
            self._to(gathered)
