"""The keys of events of any origin: what is not as expected is as if it were missing; pure.

Of a job that has not ended more is known than its events tell: that is told as events, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

from msgspec import Struct, ValidationError, convert

from ascend_supervisor.causes.diagnosis import Diagnosis
from ascend_supervisor.untrusted_text import printable

ToldEvent = Mapping[str, Any]
"""An event as it is in the event log."""
MOST_NUMBER = 10_000_000
MOST_LETTERS, MOST_ITEMS = 2000, 40
"""More than an event holds that a supervisor has written."""


def moment(event: ToldEvent) -> int | None:
    """When it was, in microseconds since the epoch; None if it is no event."""
    return instant(event.get("ts")) if isinstance(event.get("event"), str) else None


def instant(ts: object) -> int | None:
    """A time stamp (RFC 3339), in microseconds since the epoch; None if it is none."""
    if not isinstance(ts, str):
        return None
    try:
        return round(datetime.fromisoformat(ts.replace("Z", "+00:00")).timestamp() * 1e6)
    except (ValueError, OverflowError):
        return None


def number(event: ToldEvent, key: str) -> int | None:
    """A count, a rank or a step."""
    found = event.get(key)
    return found if type(found) is int and 0 <= found < 10**12 else None


def micros(event: ToldEvent, key: str) -> int:
    """Seconds, as microseconds; 0 if there are none."""
    found = event.get(key)
    is_number = isinstance(found, int | float) and 0 <= found < MOST_NUMBER
    return round(found * 1e6) if is_number else 0  # type: ignore[operator]


def text(event: ToldEvent, key: str) -> str:
    """On one line, of printable characters."""
    found = event.get(key)
    return printable(found[:MOST_LETTERS]) if isinstance(found, str) else ""


def lines(event: ToldEvent, key: str) -> tuple[str, ...]:
    """The lines of a text."""
    found = event.get(key)
    cut = found[: MOST_LETTERS * 4].split("\n") if isinstance(found, str) else ()
    return tuple(printable(one) for one in cut[:MOST_ITEMS])


def texts(event: ToldEvent, key: str) -> tuple[str, ...]:
    """The items of a list, each on one line."""
    found = event.get(key)
    items = found[:MOST_ITEMS] if isinstance(found, list) else ()
    return tuple(printable(one[:MOST_LETTERS]) for one in items if isinstance(one, str))


def known_cause(event: ToldEvent) -> Diagnosis | None:
    """What the supervisor knows of the cause, each text on one line."""
    found = event.get("diagnosis")
    if not isinstance(found, dict):
        return None
    clean = {key: text(found, key) if isinstance(found[key], str) else found[key] for key in found}
    try:
        return convert(clean, Diagnosis)
    except ValidationError:
        return None


def numbers(event: ToldEvent, key: str) -> dict[str, float]:
    """The numbers of an object by their names."""
    found = event.get(key)
    if not isinstance(found, dict):
        return {}
    return {
        printable(str(name)[:MOST_ITEMS]): float(value)
        for name, value in [*found.items()][:MOST_ITEMS]
        if type(value) in {int, float} and 0 <= value < 10**12
    }


class Present(Struct, frozen=True):
    """The job was so ``at`` this moment, in seconds since 1970, on this ``host``.

    ``runs``: its supervisor is seen to be alive. The last ``step`` was told at ``step_time``
    (RFC 3339).
    """

    host: str
    at: float
    runs: bool
    generation: int | None = None
    step: int | None = None
    steps: int | None = None
    step_time: str | None = None

    def events(self) -> Iterator[ToldEvent]:
        """The same as events, which go on from those of the event log."""
        if self.step is not None and self.step_time is not None:
            yield {
                "event": "training.progress",
                "ts": self.step_time,
                "host": self.host,
                "generation": self.generation,
                "step": self.step,
                "steps": self.steps,
            }
        now = datetime.fromtimestamp(self.at, timezone.utc).isoformat()
        yield {"event": "present", "ts": now, "host": self.host}
