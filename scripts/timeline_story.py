"""What a timeline shows, from the events of supervisors.

A supervisor is always in one phase. Its events say when the next one begins, and what happened.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

Event = Mapping[str, Any]

GENERATION, ENDING = "phase.generation", "phase.ending"
PHASES = {
    "supervisor.started": "phase.start",
    "rank_table.waiting": "phase.table",
    "cluster.waiting": "phase.cluster",
    "release.waiting": "phase.release",
    "restart.scheduled": "phase.pause",
    "generation.started": GENERATION,
    "generation.ended": "phase.start",
}
"""The phase that begins with an event."""


@dataclass(frozen=True)
class Span:
    """One phase, in seconds of the wall clock; ``generation`` is the number of a generation."""

    phase: str
    begin: float
    end: float
    generation: int | None = None


@dataclass(frozen=True)
class Mark:
    """Something that happened at one moment; ``word`` with its ``value`` says what."""

    word: str
    at: float
    value: str = ""


@dataclass(frozen=True)
class Row:
    """One line of the picture: a server, or the cluster, which has marks only."""

    name: str
    spans: tuple[Span, ...] = ()
    marks: tuple[Mark, ...] = ()


def events_of(path: Path) -> Iterator[Event]:
    """The events of one file; output of ranks and other lines are no events."""
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and {"ts", "event", "host"} <= event.keys():
            yield event


def rows(files: Iterable[Sequence[Event]]) -> tuple[Row, ...]:
    """A row for each host, in the order of the files; a host may have had several supervisors."""
    found: dict[str, Row] = {}
    for events in filter(None, files):
        name = events[0]["host"]
        row = found.get(name, Row(name))
        found[name] = replace(
            row, spans=(*row.spans, *spans(events)), marks=(*row.marks, *marks(events))
        )
    return tuple(found.values())


def seconds(event: Event) -> float:
    return datetime.fromisoformat(event["ts"].replace("Z", "+00:00")).timestamp()


def spans(events: Sequence[Event]) -> Iterator[Span]:
    """The phases of one supervisor, one after the other, up to its last event."""
    now: Span | None = None
    for event in events:
        at = seconds(event)
        phase = _phase(event, now)
        if now is not None and phase is not None and phase != now.phase:
            yield replace(now, end=at)
        if phase is not None and (now is None or phase != now.phase):
            now = Span(phase, at, at, event.get("generation") if phase == GENERATION else None)
    if now is not None:
        yield replace(now, end=seconds(events[-1]))


def _phase(event: Event, now: Span | None) -> str | None:
    """The phase that begins now; None: the phase stays as it is."""
    ends = now is not None and now.phase == GENERATION and _ends_a_generation(event)
    return ENDING if ends else PHASES.get(event["event"])


def _ends_a_generation(event: Event) -> bool:
    name = event["event"]
    reasons = {"cluster.incident", "hang.noticed", "signal.received"}
    return name in reasons or bool(event.get("first_failure"))


def marks(events: Iterable[Event]) -> Iterator[Mark]:
    for event in events:
        if found := _mark(event):
            yield Mark(found[0], seconds(event), found[1])


def _mark(event: Event) -> tuple[str, str] | None:
    """The word and the value of a mark."""
    match event["event"]:
        case "cluster.acted":
            return f"act.{event['act']}", ""
        case "cluster.incident":
            return f"mark.{event['trigger']}", ""
        case "process.exited" if event["first_failure"]:
            return "mark.failure", str(event["rank"])
        case "signal.received":
            return "mark.signal", event["signal"]
        case "hang.noticed" | "rank_table.unchanged" as name:
            return f"mark.{name}", ""
        case "supervisor.exited":
            return "mark.exit", str(event["exit_code"])
        case _:
            return None
