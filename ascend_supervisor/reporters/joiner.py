"""Reports like events of several ranks as one, if they come at once: one line for people."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterable, Sequence
from pathlib import PurePath
from typing import ClassVar

from ascend_supervisor.events import Event, Report
from ascend_supervisor.events.generations import ProcessExited, ProcessStarted
from ascend_supervisor.phrases import runs


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
    return ", ".join(
        f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run))  # noqa: PLR2004
        for run in runs(numbers)
    )


HOLD_SECONDS = 0.2
"""How long the first of several like events waits for others."""


class Joiner:
    """``report`` passes events on, in order; it must be called in the event loop's thread."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._held: list[Event] = []
        self._kind: Hashable = None
        self._alarm: asyncio.TimerHandle | None = None

    def report(self, event: Event) -> None:
        kind = kind_of(event)
        if kind != self._kind:
            self.tell_held()
        if kind is None:
            self._report(event)
            return
        self._kind = kind
        self._held.append(event)
        if self._alarm is None:
            self._alarm = asyncio.get_running_loop().call_later(HOLD_SECONDS, self.tell_held)

    def tell_starts(self) -> None:
        """Pass on starts that wait for others: a rank's output comes after its start."""
        if self._held and isinstance(self._held[0], ProcessStarted):
            self.tell_held()

    def tell_held(self) -> None:
        """Pass on what waits for others of its kind."""
        if self._alarm is not None:
            self._alarm.cancel()
        held, self._held, self._kind, self._alarm = self._held, [], None, None
        if held:
            self._report(joined(held))
