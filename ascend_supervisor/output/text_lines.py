"""A rank's output for people: with a label before each line, or as it is.

Chunks may be cut anywhere. Of a line with carriage returns the last piece counts, as on a
terminal: a progress bar writes itself again and again, and ends its line only once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ascend_supervisor.output.console_thread import CUT, Rendered
from ascend_supervisor.output.footer import Drawing
from ascend_supervisor.output.terminal import Label, cut
from ascend_supervisor.untrusted_text import Shown, divided, harmless

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


def visible(lines: bytes) -> bytes:
    """``lines`` without the pieces that others were written over; CR LF becomes LF."""
    if b"\r" not in lines:
        return lines
    return b"\n".join(map(_last_piece, lines.split(b"\n")))


def needed(begun: bytes) -> bytes:
    """What must be kept of a line that goes on, so that ``visible`` says the same of the whole."""
    bare = begun.rstrip(b"\r")
    return _last_piece(bare) + (b"\r" if bare != begun else b"")


def _last_piece(line: bytes) -> bytes:
    return line.rstrip(b"\r").rpartition(b"\r")[2]


class TextLines:
    r"""Lines with a ``label``, as they are ``shown``; of ``\r`` what is visible in the end.

    An unfinished line is shown from its beginning, whenever it is shown, as a line of its own.
    """

    growth = 2.0

    def __init__(self, label: Label, shown: Shown = harmless) -> None:
        self._label = label.painted.encode(errors="backslashreplace")
        self._shown = shown
        self._line = BegunLine(needed)
        self._told: bytes | None = None
        """The unfinished line as it was shown last."""

    def render(self, chunk: bytes, moment: float, numbers: object) -> Rendered:  # noqa: ARG002  (no time, no number)
        lines = visible(self._line.take(chunk.translate(None, b"\0")))
        if lines and self._told is not None:
            lines = lines.removeprefix(self._told + b"\n")
            self._told = None
        return self._labelled(lines)

    def unfinished(self) -> Rendered:
        line = visible(self._line.data)
        if not line.strip() or line == self._told:
            return b""
        self._told = line
        return self._labelled(line)

    def rest(self, moment: float, numbers: object) -> Rendered:  # noqa: ARG002
        line, told = visible(self._line.rest()), self._told
        self._told = None
        return self._labelled(line) if line.strip() and line != told else b""

    def cut(self) -> Rendered:
        self._told = None
        return self._label + CUT if self._line.forget() else b""

    def ends(self, shown: Rendered) -> int:
        return shown.count(b"\n")

    def _labelled(self, lines: bytes) -> bytes:
        """``lines`` with the label before each; the last may have no end."""
        if not lines:
            return b""
        shown = self._shown(lines).removesuffix(b"\n")
        return b"%b%b\n" % (self._label, shown.replace(b"\n", b"\n" + self._label))


class TerminalLines(TextLines):
    """The same on a terminal: an unfinished line is below all others until it ends.

    ``keep`` shows its words there, or nothing any more.
    """

    growth = 1.0

    def __init__(self, label: Label, shown: Shown, keep: Callable[[Drawing | None], None]) -> None:
        super().__init__(label, shown)
        self._name = label
        self._keep = keep
        self._is_kept = False

    def render(self, chunk: bytes, moment: float, numbers: object) -> Rendered:
        lines = super().render(chunk, moment, numbers)
        if lines:
            self._forget()
        return lines

    def unfinished(self) -> Rendered:
        line = harmless(visible(self._line.data)).decode().replace("\t", " ")
        if not line.strip():
            self._forget()
            return b""
        self._is_kept = True
        self._keep(partial(self._words, line))
        return b""

    def rest(self, moment: float, numbers: object) -> Rendered:
        self._forget()
        return super().rest(moment, numbers)

    def cut(self) -> Rendered:
        self._forget()
        return super().cut()

    def _words(self, line: str, columns: int) -> str:
        room = columns - len(self._name.text)
        return self._name.painted + cut(line, room) if room > 0 else cut(line, columns)

    def _forget(self) -> None:
        if self._is_kept:
            self._keep(None)
        self._is_kept = False


class RawLines:
    """The bytes as they are, whole lines at a time."""

    growth = 1.0

    def __init__(self) -> None:
        self._line = BegunLine()

    def render(self, chunk: bytes, moment: float, numbers: object) -> Rendered:  # noqa: ARG002  (no time, no number)
        return self._line.take(chunk)

    def unfinished(self) -> Rendered:
        return self._line.part()

    def rest(self, moment: float, numbers: object) -> Rendered:  # noqa: ARG002
        return self._line.rest()

    def cut(self) -> Rendered:
        return CUT if self._line.forget() else b""

    def ends(self, shown: Rendered) -> int:
        return shown.count(b"\n")
