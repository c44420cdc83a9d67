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

    def say(self, sentence: str) -> None:
        self.tell(f"{PROGRAM}: {printable(sentence)}")


STANDARD = Out(put, tell)
