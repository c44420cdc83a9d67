"""The options by which somebody outside is told what happens to the job."""

from __future__ import annotations

import shlex
from typing import Literal, get_args

from msgspec import Struct

from ascend_supervisor.settings.kinds import Group, Kind, Option

AlertKind = Literal["failed", "restarted", "hang", "ended"]
"""``failed`` and ``ended`` are the end of the job, with or without a failure."""

ALERT_KINDS: tuple[AlertKind, ...] = get_args(AlertKind)


class EventProgram(Struct, frozen=True):
    """A program and its arguments, which may be secrets: ``str()`` shows only the program."""

    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.words[0]} ***" if self.words[1:] else self.words[0]

    __repr__ = __str__


def read_event_program(found: object) -> EventProgram:
    """A command, split into words as a shell does, but for which no shell is started."""
    try:
        words = shlex.split(found) if isinstance(found, str) and "\0" not in found else []
    except ValueError:
        words = []
    if not any(words[:1]):
        raise ValueError("a command, with quotes that end")
    return EventProgram(tuple(words))


def read_alert_kinds(found: object) -> tuple[AlertKind, ...]:
    """From a list or from a text with commas."""
    items = found.split(",") if isinstance(found, str) else found
    words = [str(item).strip() for item in items] if isinstance(items, list) else []
    kinds = tuple(kind for kind in ALERT_KINDS if kind in words)
    if not kinds or not set(words) <= set(kinds):
        raise ValueError(f"some of {', '.join(ALERT_KINDS)}, with commas between")
    return kinds


ALERTS: Group = (
    "Being told",
    (
        Option(
            "on-event",
            Kind("CMD", read_event_program, shown=lambda _: "another value"),
            "run CMD for each event of --notify-on, with the event as a line of JSON on its stdin; "
            "no shell is started",
            otherwise="off",
        ),
        Option(
            "notify-on",
            Kind("LIST", read_alert_kinds),
            "which events: failed and ended (the end of the job), restarted, hang",
            default="failed,restarted,hang,ended",
        ),
    ),
)
