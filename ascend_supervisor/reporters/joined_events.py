"""Events of several ranks that say the same, as one sentence; pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from pathlib import PurePath
from typing import ClassVar

from ascend_supervisor.events import Event
from ascend_supervisor.events.generations import ProcessExited, ProcessStarted


class Together(Event, frozen=True):
    """Stands for several events in text; ``text`` is its sentence."""

    name: ClassVar[str] = "together"
    text: str

    @property
    def sentence(self) -> str:
        return self.text


def kind_of(event: Event) -> Hashable:
    """Events of one kind can be joined; None: this one stands alone."""
    match event:
        case ProcessStarted(rank=int()):
            return ProcessStarted, event.generation
        case ProcessExited(rank=int(), first_failure=False) if not event.oom_killed:
            return ProcessExited, event.generation, event.status, event.signal
        case _:
            return None


def joined(events: Sequence[Event]) -> Event:
    """One event in place of ``events``, which are of one kind."""
    if len(events) == 1:
        return events[0]
    starts = [event for event in events if isinstance(event, ProcessStarted)]
    if starts:
        return Together(_started(starts))
    return Together(_exited([event for event in events if isinstance(event, ProcessExited)]))


def _started(events: Sequence[ProcessStarted]) -> str:
    folders = {str(PurePath(event.log).parent) for event in events}
    where = f"their logs are in {folders.pop()}" if len(folders) == 1 else "each has its own log"
    pids = spans(event.child_pid for event in events)
    return f"ranks {_ranks(events)} started (processes {pids}); {where}"


def _exited(events: Sequence[ProcessExited]) -> str:
    one = events[0]
    how = f"were killed by {one.signal}" if one.signal else f"exited with status {one.status}"
    first, last = (f"{end(event.runtime_seconds for event in events):.1f}" for end in (min, max))
    after = first if first == last else f"{first} to {last}"
    return f"ranks {_ranks(events)} {how} after {after} s"


def _ranks(events: Iterable[ProcessStarted | ProcessExited]) -> str:
    return spans(event.rank for event in events if event.rank is not None)


def spans(numbers: Iterable[int]) -> str:
    """``0 to 3, 5, 7``: numbers in order; three or more in a row as a span."""
    rows: list[list[int]] = []
    for number in sorted(numbers):
        if rows and number == rows[-1][-1] + 1:
            rows[-1].append(number)
        else:
            rows.append([number])
    return ", ".join(
        f"{row[0]} to {row[-1]}" if len(row) > 2 else ", ".join(map(str, row))  # noqa: PLR2004
        for row in rows
    )
