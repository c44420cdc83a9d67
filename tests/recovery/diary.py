"""What happened in a simulated cluster, in its own time: pictures are drawn from it.

The clock of a simulated cluster is moved, so the time of the machine tells nothing. Here it is
turned into that of the cluster.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from tests.running import Event

TOLD = {
    *("supervisor.started", "rank_table.waiting", "rank_table.ready", "rank_table.unchanged"),
    *("generation.started", "generation.ended", "restart.scheduled", "process.exited"),
    *("cluster.incident", "cluster.waiting", "signal.received", "supervisor.exited"),
}
"""The events that a picture and its story need."""


@dataclass(frozen=True)
class Stretch:
    """From ``begin`` on, a moment of the machine, the clock of the cluster shows ``shown``."""

    begin: float
    shown: float
    runs: bool = True

    def at(self, moment: float) -> float:
        return self.shown + (moment - self.begin if self.runs else 0.0)


class Diary:
    """Follows the clock of the cluster; all in seconds since 1970."""

    def __init__(self) -> None:
        now = time.time()
        self._stretches = [Stretch(now, now)]
        self.acts: list[Event] = []

    def move(self, seconds: float) -> None:
        self._go_on(seconds, runs=self._stretches[-1].runs)

    def hold(self) -> None:
        self._go_on(runs=False)

    def run(self) -> None:
        self._go_on(runs=True)

    def _go_on(self, seconds: float = 0.0, *, runs: bool) -> None:
        now = time.time()
        self._stretches.append(Stretch(now, self.shown(now) + seconds, runs))

    def shown(self, moment: float) -> float:
        """What the clock of the cluster showed at this moment of the machine."""
        stretches = (one for one in reversed(self._stretches) if one.begin <= moment)
        return next(stretches, self._stretches[0]).at(moment)

    def act(self, name: str, host: str = "cluster") -> Event:
        """What was done just now, in the form of an event."""
        stamp = _stamp(self.shown(time.time()))
        return {"ts": stamp, "host": host, "event": "cluster.acted", "act": name}

    def note(self, name: str) -> None:
        self.acts.append(self.act(name))

    def note_reset(self, before: bytes, after: bytes) -> None:
        """What the cluster does by writing this reset file in place of that one."""
        old, new = map(json.loads, (before, after))
        if old.get("RetryTime") != new.get("RetryTime"):
            self.note("retry_time")
        known = {listed["Status"] for listed in old.get("RankList") or []}
        statuses = (listed["Status"] for listed in new.get("RankList") or [])
        for status in dict.fromkeys(one for one in statuses if one not in known):
            self.note(status)
        for key, name in (("FaultFlushing", "flushing"), ("GracefulExit", "graceful_exit")):
            if new.get(key) and not old.get(key):
                self.note(name)

    def events(self, events: Iterable[Event]) -> list[Event]:
        """Those of a supervisor that a picture needs, with the time of the cluster."""
        told = [event for event in events if event["event"] in TOLD]
        return [{**event, "ts": _stamp(self.shown(seconds(event["ts"])))} for event in told]


def seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()


def _stamp(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, timezone.utc)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def write_lines(file: Path, events: Iterable[Event], places: Mapping[str, str]) -> None:
    """One event a line; ``places`` are paths of this machine, and what a container calls them."""
    text = "".join(f"{json.dumps(one, separators=(',', ':'))}\n" for one in events)
    for here, there in {**places, sys.executable: "python"}.items():
        text = text.replace(here, there)
    file.write_text(text, encoding="utf-8")
