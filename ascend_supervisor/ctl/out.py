"""Where the answer of a command goes, and the messages beside it."""

from __future__ import annotations

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
