"""A rank's output as ``output`` events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from itertools import islice

import orjson
from msgspec import Struct

from ascend_supervisor.events import timestamp
from ascend_supervisor.events.output import Output
from ascend_supervisor.files.to_json import escaped, to_json
from ascend_supervisor.output.console_thread import Rendered
from ascend_supervisor.output.text_lines import PARTIAL_BYTES
from ascend_supervisor.process_spec import ProcessSpec

PARTIAL_END = b'","partial":true}\n'
"""Ends an event whose line goes on; within a message quotes are escaped."""
END = b'"}\n'

PIECE_CHARACTERS = 1024
"""Characters that surely fit into a line: JSON needs six bytes for one at the most."""


class Origin(Struct, frozen=True):
    """The keys that say where an event comes from."""

    job_id: str
    host: str
    pid: int


class JsonLines:
    """A rank's output as ``output`` events. Made for millions of lines a second."""

    growth = 0.0

    def __init__(self, spec: ProcessSpec, generation: int) -> None:
        keys = {"event": Output.name, "rank": spec.rank, "generation": generation}
        if spec.program is not None:
            keys["program"] = spec.program
        self._constant = b"%b" % to_json(keys)[1:-1]
        self._pending = b""

    def render(self, chunk: bytes, moment: float, numbers: Iterator[int]) -> Rendered:
        if self._pending:
            chunk = self._pending + chunk
        end = chunk.rfind(b"\n") + 1
        self._pending = chunk[end:]
        shown = _lines(_text(chunk[: end - 1]), self._head(moment), numbers) if end else b""
        if len(self._pending) > PARTIAL_BYTES:
            self._pending, begun = _before_character(self._pending)
            shown += self.rest(moment, numbers)
            self._pending = begun
        return shown

    def rest(self, moment: float, numbers: Iterator[int]) -> Rendered:
        pending, self._pending = self._pending, b""
        if not pending:
            return b""
        pieces = _pieces(_text(pending))
        return _joined(pieces, [PARTIAL_END] * len(pieces), self._head(moment), numbers)

    def unfinished(self) -> Rendered:
        return b""

    def cut(self) -> Rendered:
        """Nothing: the parts that were shown are marked as partial."""
        self._pending = b""
        return b""

    def ends(self, shown: Rendered) -> int:
        return shown.count(b"\n") - shown.count(PARTIAL_END)

    def _head(self, moment: float) -> bytes:
        """What is between the number of a line and its message."""
        ts = timestamp(datetime.fromtimestamp(moment, timezone.utc)).encode()
        return b',"ts":"%b",%b,"msg":"' % (ts, self._constant)


def _text(data: bytes) -> str:
    return data.replace(b"\0", b"").decode("utf-8", "backslashreplace")


def _lines(text: str, head: bytes, numbers: Iterator[int]) -> bytes:
    """The lines of ``text``, which has no newline at its end."""
    messages = _messages(text)
    if max(map(len, messages)) <= PIECE_CHARACTERS:
        return _joined(messages, [END] * len(messages), head, numbers)
    pieces: list[bytes] = []
    ends: list[bytes] = []
    for line in text.split("\n"):
        of_line = _pieces(line)
        pieces += of_line
        ends += [PARTIAL_END] * (len(of_line) - 1) + [END]
    return _joined(pieces, ends, head, numbers)


def _messages(text: str) -> list[bytes]:
    r"""Each line as the inside of a JSON string.

    One call for all is by far the fastest way. In its answer ``\n`` is a line break, unless there
    are backslashes in the text itself.
    """
    if "\\" in text:
        return [_message(line) for line in text.split("\n")]
    return _message(text).split(b"\\n")


def _message(text: str) -> bytes:
    message = orjson.dumps(text)[1:-1]
    return message if text.isascii() else escaped(message)


def _pieces(line: str) -> list[bytes]:
    """A line that may be too long for one event."""
    cuts = range(0, max(len(line), 1), PIECE_CHARACTERS)
    return [_message(line[cut : cut + PIECE_CHARACTERS]) for cut in cuts]


def _joined(
    messages: list[bytes], ends: Iterable[bytes], head: bytes, numbers: Iterator[int]
) -> bytes:
    """The events: slices of one list, and one join, take a tenth of the time of a loop."""
    count = len(messages)
    parts = [b'{"seq":'] * (5 * count)
    parts[1::5] = orjson.dumps([*islice(numbers, count)])[1:-1].split(b",")
    parts[2::5] = [head] * count
    parts[3::5] = messages
    parts[4::5] = ends
    return b"".join(parts)


def _before_character(data: bytes) -> tuple[bytes, bytes]:
    """``data`` without an incomplete UTF-8 character at its end, and that character's bytes."""
    for size in range(1, min(3, len(data)) + 1):
        first = data[-size]
        length = next(length for length, least in _CHARACTERS if first >= least)
        if length:
            return (data[:-size], data[-size:]) if size < length else (data, b"")
    return data, b""


_CHARACTERS = ((4, 0b1111_0000), (3, 0b1110_0000), (2, 0b1100_0000), (0, 0b1000_0000), (1, 0))
"""How many bytes a character has, and its lowest first byte; 0 for continuation bytes."""
