"""Events, and the ranks' mirrored lines, as one JSON object a line for log shippers.

A line stays under 8 KiB (rsyslog's default; CRI cuts at 16 KiB); keys are flat and hold no dots.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timezone
from typing import Any

import orjson
import structlog

from ascend_supervisor.events import Event, Level, Output, Report, SupervisorExited
from ascend_supervisor.files.to_json import escaped, to_json
from ascend_supervisor.launchers.spec import ProcessSpec
from ascend_supervisor.output.console import CUT, Console, Numbered, Plain, Rendered
from ascend_supervisor.output.terminal import Shown, divided, harmless

LINE_BYTES = 8 * 1024 - 256
"""What an event may take, with room for a longer seq and a shipper's own words."""
CUT_TO = 50
PARTIAL_BYTES = 16 * 1024
"""An unfinished line that grows beyond this is shown in parts."""
PARTIAL_END = b',"partial":true}\n'
"""Ends an event whose line goes on; within a message quotes are escaped."""
PIECE_CHARACTERS = 1024
"""Characters that surely fit into a line: JSON needs six bytes for one at the most."""
LEVELS: dict[Level, int] = {"debug": 10, "info": 20, "warning": 30, "error": 40}


@dataclass(frozen=True, slots=True)
class Origin:
    """The keys that say where an event comes from."""

    job_id: str
    host: str
    pid: int


def json_log(console: Console, origin: Origin, level: Level) -> Report:
    """A report that writes JSON lines to ``console``, from ``level`` on."""
    return _log(_Sink(console, Numbered), origin, level, [_render_json])


def text_log(console: Console, origin: Origin, level: Level) -> Report:
    """A report for people at a terminal: time, level and sentence."""
    return _log(_Sink(console, Plain), origin, level, [_render_text])


Processor = Callable[[Any, str, MutableMapping[str, Any]], Any]


def _log(sink: _Sink, origin: Origin, level: Level, rendering: list[Processor]) -> Report:
    logger = structlog.wrap_logger(
        sink,
        processors=[
            structlog.processors.add_log_level,
            _with_time,
            *rendering,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        # The first four have their values from each event; here they get their places.
        context_class=dict,
        cache_logger_on_first_use=True,
        ts="",
        level="",
        event="",
        msg="",
        **asdict(origin),
    )

    over = False

    def report(event: Event) -> None:
        nonlocal over
        if over:  # a thread's complaint may come late, but supervisor.exited is the last line
            return
        over = isinstance(event, SupervisorExited)
        keys = {field.name: getattr(event, field.name) for field in fields(event)}
        logger.log(LEVELS[event.severity], event.name, msg=event.msg, **keys)

    return report


class _Sink:
    """What structlog calls a logger: takes rendered lines, whatever their level."""

    def __init__(self, console: Console, kind: type[Numbered | Plain]) -> None:
        self._console = console
        self._kind = kind

    def _take(self, line: bytes) -> None:
        self._console.put(self._kind(line))

    debug = info = warning = error = _take


def _with_time(_: Any, __: str, keys: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    keys["ts"] = _ts(datetime.now(timezone.utc))
    return keys


def _ts(moment: datetime) -> str:
    """RFC 3339 with microseconds, always; structlog's own stamp leaves out a fraction of 0."""
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _render_json(_: Any, __: str, keys: MutableMapping[str, Any]) -> bytes:
    line = to_json(keys)
    while len(line) >= LINE_BYTES:
        longest = max(keys, key=lambda key: len(to_json(keys[key])))
        keys[longest] = _shortened(keys[longest])
        line = to_json(keys)
    return line + b"\n"


def _shortened(value: Any) -> Any:
    """About half of it, with the same type: of text both ends, of a list the first items."""
    if isinstance(value, str):
        part = len(value) // 4
        return f"{value[:part]} ...(cut)... {value[-part:]}" if part > CUT_TO else value[:part]
    if isinstance(value, (tuple, list)):
        return [_shortened(value[0])] if len(value) == 1 else value[: len(value) // 2]
    return value


def _render_text(_: Any, __: str, keys: MutableMapping[str, Any]) -> bytes:
    moment = str(keys["ts"])[11:23]
    level = "" if keys["level"] == "info" else f"{keys['level']}: "
    text = f"{moment} {level}{keys['msg']}\n"
    if keys.get("root_cause"):
        text += f"{keys['root_cause']}\n"
    return text.encode("utf-8", "backslashreplace")


class JsonLines:
    """A rank's output as ``output`` events. Made for millions of lines a second."""

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

    def render(self, chunk: bytes, moment: float, seq: int) -> tuple[Rendered, int]:
        if self._pending:
            chunk = self._pending + chunk
        end = chunk.rfind(b"\n") + 1
        self._pending = chunk[end:]
        lines = _text(chunk[:end]).split("\n")
        lines.pop()
        head = self._head(moment)
        if max(map(len, lines), default=0) > PIECE_CHARACTERS:
            shown, seq = _pieces(lines, head, seq)
        else:
            shown, seq = _whole(lines, head, seq)
        if len(self._pending) > PARTIAL_BYTES:
            self._pending, begun = _before_character(self._pending)
            rest, seq = self.rest(moment, seq)
            self._pending = begun
            shown += rest
        return escaped(shown), seq

    def rest(self, moment: float, seq: int) -> tuple[Rendered, int]:
        pending, self._pending = self._pending, b""
        if not pending:
            return b"", seq
        shown, seq = _pieces([_text(pending)], self._head(moment), seq, unfinished=True)
        return escaped(shown), seq

    def cut(self) -> Rendered:
        """Nothing: the parts that were shown are partial."""
        self._pending = b""
        return b""

    def ends(self, shown: Rendered) -> int:
        return shown.count(b"\n") - shown.count(PARTIAL_END)

    def _head(self, moment: float) -> bytes:
        """Everything before the message, with a place for seq."""
        ts = _ts(datetime.fromtimestamp(moment, timezone.utc)).encode()
        return b'{"seq":%%d,"ts":"%b"%b,"message":' % (ts, self._constant)


def _text(data: bytes) -> str:
    return data.replace(b"\0", b"").decode("utf-8", "backslashreplace")


def _whole(lines: list[str], head: bytes, seq: int) -> tuple[bytearray, int]:
    """Lines that each fit into one event; one bytearray that grows is by far the fastest way."""
    shown = bytearray()
    dumps = orjson.dumps
    between = b"}\n" + head
    glue = head
    for line in lines:
        shown += glue % seq
        shown += dumps(line)
        seq += 1
        glue = between
    if lines:
        shown += b"}\n"
    return shown, seq


def _pieces(
    lines: list[str], head: bytes, seq: int, *, unfinished: bool = False
) -> tuple[bytearray, int]:
    """Lines of which some are too long for one event; all pieces but a line's last are partial."""
    shown = bytearray()
    for line in lines:
        cuts = range(0, max(len(line), 1), PIECE_CHARACTERS)
        for cut in cuts:
            more = unfinished or cut != cuts[-1]
            message = orjson.dumps(line[cut : cut + PIECE_CHARACTERS])
            shown += head % seq + message + (PARTIAL_END if more else b"}\n")
            seq += 1
    return shown, seq


class TextLines:
    """A rank's output with its name before every line, as it is ``shown``."""

    def __init__(self, spec: ProcessSpec, shown: Shown = harmless) -> None:
        self._prefix = f"[{spec.name}] ".encode()
        self._shown = shown
        self._pending = b""
        self._begun = False
        """Whether a part of the incomplete line was shown."""

    def render(self, chunk: bytes, moment: float, seq: int) -> tuple[Rendered, int]:  # noqa: ARG002  (no time, no number)
        if self._pending:
            chunk = self._pending + chunk
        end = chunk.rfind(b"\n") + 1
        if end:
            self._begun = False
        elif len(chunk) > PARTIAL_BYTES:
            end = len(divided(chunk)[0])
            self._begun = True
        lines, self._pending = chunk[:end], chunk[end:]
        return self._labelled(lines), seq

    def rest(self, moment: float, seq: int) -> tuple[Rendered, int]:  # noqa: ARG002
        lines, self._pending = self._pending, b""
        return self._labelled(lines), seq

    def _labelled(self, lines: bytes) -> bytes:
        """``lines``, of which the last may have no end, with the name before each."""
        if not lines:
            return b""
        shown = self._shown(lines).removesuffix(b"\n")
        return b"%b%b\n" % (self._prefix, shown.replace(b"\n", b"\n" + self._prefix))

    def cut(self) -> Rendered:
        self._pending = b""
        begun, self._begun = self._begun, False
        return self._prefix + CUT if begun else b""

    def ends(self, shown: Rendered) -> int:
        return shown.count(b"\n")


class RawLines:
    """A rank's output as it is."""

    def render(self, chunk: bytes, moment: float, seq: int) -> tuple[Rendered, int]:  # noqa: ARG002  (no time, no number)
        return chunk, seq

    def rest(self, moment: float, seq: int) -> tuple[Rendered, int]:  # noqa: ARG002
        return b"", seq

    def cut(self) -> Rendered:
        return CUT

    def ends(self, shown: Rendered) -> int:
        return shown.count(b"\n")


def _before_character(data: bytes) -> tuple[bytes, bytes]:
    """``data`` up to a character of UTF-8 that has only begun at its end, and what has begun."""
    for size in range(1, min(3, len(data)) + 1):
        first = data[-size]
        length = next(length for length, least in _CHARACTERS if first >= least)
        if length:
            return (data[:-size], data[-size:]) if size < length else (data, b"")
    return data, b""


_CHARACTERS = ((4, 0b1111_0000), (3, 0b1110_0000), (2, 0b1100_0000), (0, 0b1000_0000), (1, 0))
"""How many bytes a character has, and the least first byte of such; 0 goes on with one."""
