"""A rank's output for people: with a label before each line, or as it is."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ascend_supervisor.output.begun_line import BegunLine
from ascend_supervisor.output.carriage_returns import needed, visible
from ascend_supervisor.output.console_items import Rendered
from ascend_supervisor.output.console_thread import CUT
from ascend_supervisor.output.footer import Words
from ascend_supervisor.output.labels import Label
from ascend_supervisor.output.terminal_escapes import Shown, harmless
from ascend_supervisor.output.text_width import cut


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

    def __init__(self, label: Label, shown: Shown, keep: Callable[[Words | None], None]) -> None:
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
