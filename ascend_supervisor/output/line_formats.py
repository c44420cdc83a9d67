"""A rank's output as ``output`` events."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone

import orjson
from msgspec import Struct

from ascend_supervisor.events.output import Output
from ascend_supervisor.files.to_json import escaped, to_json
from ascend_supervisor.launchers.process_spec import ProcessSpec
from ascend_supervisor.output.begun_line import PARTIAL_BYTES
from ascend_supervisor.output.console_items import Rendered

PARTIAL_END = b',"partial":true}\n'
"""Ends an event whose line goes on; within a message quotes are escaped."""

PIECE_CHARACTERS = 1024
"""Characters that surely fit into a line: JSON needs six bytes for one at the most."""


class Origin(Struct, frozen=True):
    """The keys that say where an event comes from."""

    job_id: str
    host: str
    pid: int


def timestamp(moment: datetime) -> str:
    """RFC 3339 with microseconds, always; structlog's own stamp leaves out a fraction of 0."""
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


class JsonLines:
    """A rank's output as ``output`` events. Made for millions of lines a second."""

    growth = 0.0

    def __init__(self, spec: ProcessSpec, generation: int, origin: Origin) -> None:
        event = Output(
            spec.rank, spec.local_rank, generation, "", partial=False, program=spec.program
        )
        keys = {
            "level": event.level,
            "event": event.name,
            "msg": event.msg,
            "job_id": origin.job_id,
            "host": origin.host,
            "pid": origin.pid,
            "rank": event.rank,
            "local_rank": event.local_rank,
            "generation": event.generation,
        }
        if event.program is not None:
            keys["program"] = event.program
        self._constant = b"," + to_json(keys)[1:-1].replace(b"%", b"%%")
        self._pending = b""

    def render(self, chunk: bytes, moment: float, numbers: Iterator[int]) -> Rendered:
        if self._pending:
            chunk = self._pending + chunk
        end = chunk.rfind(b"\n") + 1
        self._pending = chunk[end:]
        lines = _text(chunk[:end]).split("\n")
        lines.pop()
        is_long = max(map(len, lines), default=0) > PIECE_CHARACTERS
        shown = (_pieces if is_long else _whole)(lines, self._head(moment), numbers)
        if len(self._pending) > PARTIAL_BYTES:
            self._pending, begun = _before_character(self._pending)
            shown += self.rest(moment, numbers)
            self._pending = begun
        return escaped(shown)

    def rest(self, moment: float, numbers: Iterator[int]) -> Rendered:
        pending, self._pending = self._pending, b""
        if not pending:
            return b""
        return escaped(_pieces([_text(pending)], self._head(moment), numbers, unfinished=True))

    def unfinished(self) -> Rendered:
        return b""

    def cut(self) -> Rendered:
        """Nothing: the parts that were shown are marked as partial."""
        self._pending = b""
        return b""

    def ends(self, shown: Rendered) -> int:
        return shown.count(b"\n") - shown.count(PARTIAL_END)

    def _head(self, moment: float) -> bytes:
        """Everything before the message, with a place for seq."""
        ts = timestamp(datetime.fromtimestamp(moment, timezone.utc)).encode()
        return b'{"seq":%%d,"ts":"%b"%b,"message":' % (ts, self._constant)


def _text(data: bytes) -> str:
    return data.replace(b"\0", b"").decode("utf-8", "backslashreplace")


def _whole(lines: list[str], head: bytes, numbers: Iterator[int]) -> bytearray:
    """Lines that each fit into one event; one bytearray that grows is by far the fastest way."""
    shown = bytearray()
    dumps = orjson.dumps
    between = b"}\n" + head
    glue = head
    for line in lines:
        shown += glue % next(numbers)
        shown += dumps(line)
        glue = between
    if lines:
        shown += b"}\n"
    return shown


def _pieces(
    lines: list[str], head: bytes, numbers: Iterator[int], *, unfinished: bool = False
) -> bytearray:
    """Lines, some too long for one event; all pieces but a line's last are partial."""
    shown = bytearray()
    for line in lines:
        cuts = range(0, max(len(line), 1), PIECE_CHARACTERS)
        for cut in cuts:
            more = unfinished or cut != cuts[-1]
            message = orjson.dumps(line[cut : cut + PIECE_CHARACTERS])
            shown += head % next(numbers) + message + (PARTIAL_END if more else b"}\n")
    return shown


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
