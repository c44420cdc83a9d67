"""Events, and the ranks' mirrored lines: JSON for log shippers, or text for people.

A line of JSON stays under 8 KiB (rsyslog's default; CRI cuts at 16 KiB); keys are flat and hold no
dots.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, MutableMapping
from datetime import datetime, timezone, tzinfo
from typing import Any

from msgspec.structs import asdict

from ascend_supervisor.events import Event, Level, Report, timestamp
from ascend_supervisor.events.supervisor import SupervisorExited
from ascend_supervisor.files.to_json import to_json
from ascend_supervisor.output.console import Console
from ascend_supervisor.output.console_thread import Numbered, Plain
from ascend_supervisor.output.json_lines import Origin
from ascend_supervisor.output.terminal import BOLD_RED, YELLOW, painted

COLOURS = {"error": BOLD_RED, "warning": YELLOW}
LONG, SHORT = "%Y-%m-%d %H:%M:%S", "%H:%M:%S"


class TextEvents:
    """A processor for structlog. Date and zone are told once, and again when they change.

    ``zone`` is that of the times; None is the machine's.
    """

    def __init__(self, *, in_colour: bool, zone: tzinfo | None = None) -> None:
        self._in_colour = in_colour
        self._zone = zone
        self._told: tuple[object, ...] = ()

    def __call__(self, _: Any, __: str, keys: MutableMapping[str, Any]) -> bytes:
        level = keys["level"]
        text = keys["msg"] if level == "info" else f"{level}: {keys['msg']}"
        if self._in_colour and level in COLOURS:
            text = painted(text, COLOURS[level])
        lines = [f"{self._moment(str(keys['ts']))} {text}"]
        # Only at the end: before a restart, the lines of the rank stand just above.
        cause = keys.get("root_cause") if level == "error" else None
        headline, _, details = (cause or "").partition("\n")
        if headline not in keys["msg"]:
            lines.append(headline)
        if details:
            lines.append(details)
        return ("\n".join(lines) + "\n").encode("utf-8", "backslashreplace")

    def _moment(self, ts: str) -> str:
        """``13:41:30.843``, with date and zone where they are new."""
        moment = _in_zone(datetime.fromisoformat(ts.replace("Z", "+00:00")), self._zone)
        milliseconds = f".{moment.microsecond // 1000:03}"
        day_and_zone = moment.date(), moment.utcoffset()
        if day_and_zone == self._told:
            return moment.strftime(SHORT) + milliseconds
        self._told = day_and_zone
        return f"{moment.strftime(LONG)}{milliseconds} {_zone_of(moment)}"


def _in_zone(moment: datetime, zone: tzinfo | None) -> datetime:
    """The moment there; in UTC where TZ asks for what Python has no word for, a day and more."""
    try:
        return moment.astimezone(zone)
    except (ValueError, OverflowError, OSError):
        return moment


def _zone_of(moment: datetime) -> str:
    """``UTC``, or the offset: ``+08:00``; names such as CST mean several zones."""
    offset = moment.isoformat()[-6:]
    return "UTC" if offset == "+00:00" else offset


# structlog imports rich, if it is installed, for tracebacks that we never print. That takes longer
# than all of structlog, so it is hidden meanwhile: None makes an import fail.
if "rich" in sys.modules:
    import structlog
else:
    sys.modules["rich"] = None  # type: ignore[assignment]
    import structlog

    del sys.modules["rich"]

LINE_BYTES = 8 * 1024 - 256
"""How long an event may be, with room for a longer seq and a shipper's additions."""
CUT_TO = 50
LEVELS: dict[Level, int] = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def json_log(console: Console, origin: Origin, level: Level) -> Report:
    """A report that writes JSON lines to ``console``, from ``level`` on."""
    return _log(_Taker(lambda line: console.put(Numbered(line))), origin, level, [_render_json])


def lines_log(take: Callable[[bytes], None], origin: Origin, level: Level) -> Report:
    """A report that gives each event to ``take`` as a JSON line without ``seq``."""
    return _log(_Taker(take), origin, level, [_render_json])


def text_log(console: Console, origin: Origin, level: Level, *, in_colour: bool = False) -> Report:
    """A report for people at a terminal: time, level and sentence."""
    sink = _Taker(lambda line: console.put(Plain(line)))
    return _log(sink, origin, level, [TextEvents(in_colour=in_colour)])


Processor = Callable[[Any, str, MutableMapping[str, Any]], Any]


def _log(sink: _Taker, origin: Origin, level: Level, rendering: list[Processor]) -> Report:
    logger = structlog.wrap_logger(
        sink,
        processors=[
            structlog.processors.add_log_level,
            _with_time,
            *rendering,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        # Each event sets the first four; this fixes their order.
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
        if over:  # a thread may report late, but supervisor.exited is the last line
            return
        over = isinstance(event, SupervisorExited)
        logger.log(LEVELS[event.severity], event.name, msg=event.msg, **asdict(event))

    return report


class _Taker:
    """A logger for structlog: ``take`` gets rendered lines of every level."""

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self.debug = self.info = self.warning = self.error = take


def _with_time(_: Any, __: str, keys: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    keys["ts"] = timestamp(datetime.now(timezone.utc))
    return keys


def _render_json(_: Any, __: str, keys: MutableMapping[str, Any]) -> bytes:
    line = to_json(keys)
    while len(line) >= LINE_BYTES:
        longest = max(keys, key=lambda key: len(to_json(keys[key])))
        keys[longest] = _shortened(keys[longest])
        line = to_json(keys)
    return line + b"\n"


def _shortened(value: Any) -> Any:
    """About half of it, with the same type: both ends of a text, the first items of a list."""
    if isinstance(value, str):
        part = len(value) // 4
        return f"{value[:part]} ...(cut)... {value[-part:]}" if part > CUT_TO else value[:part]
    if isinstance(value, (tuple, list)):
        return [_shortened(value[0])] if len(value) == 1 else value[: len(value) // 2]
    return value
