"""Events, and the ranks' mirrored lines, as one JSON object a line for log shippers.

A line stays under 8 KiB (rsyslog's default; CRI cuts at 16 KiB); keys are flat and hold no dots.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, MutableMapping
from datetime import datetime, timezone
from typing import Any

from msgspec.structs import asdict

from ascend_supervisor.events import Event, Level, Report
from ascend_supervisor.events.supervisor import SupervisorExited
from ascend_supervisor.files.to_json import to_json
from ascend_supervisor.output.console import Console
from ascend_supervisor.output.console_items import Numbered, Plain
from ascend_supervisor.output.json_lines import Origin, timestamp
from ascend_supervisor.reporters.text_events import TextEvents

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
