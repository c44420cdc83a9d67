"""Reports like events of several ranks as one, if they come at once: one line for people."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable

from ascend_supervisor.events import Event, Report
from ascend_supervisor.events.generations import ProcessStarted
from ascend_supervisor.reporters.joined_events import joined, kind_of

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
