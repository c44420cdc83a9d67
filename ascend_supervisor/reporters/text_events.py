"""Events as text for people: local time, level, sentence."""

from __future__ import annotations

from collections.abc import MutableMapping
from datetime import datetime, tzinfo
from typing import Any

from ascend_supervisor.output.labels import BOLD_RED, YELLOW, painted

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
        headline, _, details = (keys.get("root_cause") or "").partition("\n")
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
