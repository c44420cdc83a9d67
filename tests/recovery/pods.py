"""A pod of a simulated cluster: a real supervisor and its ranks, on a clock that the test moves."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from tests.recovery.tables import Member
from tests.recovery.writers import Directory
from tests.running import DEADLINE_SECONDS, Event, Running

LOST_PEER, OWN_FAULT = signal.SIGUSR1, signal.SIGUSR2
DONE = signal.SIGALRM
"""What makes a rank fail as one that has lost a peer, or by itself, or end well (see rank.py)."""


@cache
def network() -> tuple[str, ...]:
    """The words that give a supervisor a network of its own; none where that is not possible."""
    words = ("unshare", "--net")
    try:
        done = subprocess.run((*words, "true"), check=False, capture_output=True, timeout=30)
    except FileNotFoundError:
        return ()
    return () if done.returncode else words


class MovedClock:
    """The clock of one supervisor; ``place`` is a directory of its own."""

    def __init__(self, place: Path) -> None:
        self.place = place
        place.mkdir()
        for name in ("orders", "answers"):
            os.mkfifo(place / name)
        self._orders = os.open(place / "orders", os.O_RDWR)
        self._answers = os.open(place / "answers", os.O_RDWR | os.O_NONBLOCK)

    def order(self, word: str) -> None:
        os.write(self._orders, f"{word}\n".encode())

    def wait(self, process: subprocess.Popen[bytes]) -> None:
        """Until the last order was obeyed, or the supervisor has ended."""
        end = time.monotonic() + DEADLINE_SECONDS
        while not select.select((self._answers,), (), (), 0.1)[0]:
            assert time.monotonic() < end, "the supervisor does not move its clock"
            if process.poll() is not None:
                return
        os.read(self._answers, 1)

    def close(self) -> None:
        os.close(self._orders)
        os.close(self._answers)


@dataclass(frozen=True)
class Story:
    """How a supervisor lived, as its events tell it."""

    worlds: list[int]
    """The world size of each generation."""
    free: list[bool]
    """For each restart, whether it was free."""
    triggers: list[str]
    """Of the incidents."""
    exit_code: int


@dataclass
class Pod:
    """A pod of the job: a supervisor, and the files that its node shows it."""

    member: Member
    config: Directory
    reset: Directory
    job: Running
    clock: MovedClock
    acts: list[Event] = field(default_factory=list)
    """What was done to it, in the form of events."""
    _seen: int = field(default=-1)

    def then(self, name: str, **keys: Any) -> Event:
        """The first such event after the one that was last waited for here."""
        event = next(event for event in self.job.each(name, **keys) if event["seq"] > self._seen)
        self._seen = event["seq"]
        return event

    def up(self, generation: int = 0) -> set[str]:
        """What the ranks of a generation say first, once all of them have."""
        ready = next(islice(self.job.each("rank_table.ready"), generation, None))
        said = self.job.each("output", generation=generation)
        mine = (event["msg"] for event in said if event["msg"].startswith("rank "))
        return set(islice(mine, len(ready["local_ranks"])))

    def signal(self, rank: int, number: signal.Signals, generation: int = 0) -> None:
        started = self.job.wait_for("process.started", rank=rank, generation=generation)
        os.kill(started["child_pid"], number)

    def complete(self, generation: int) -> None:
        """End all its ranks with 0."""
        for started in self.job.all("process.started", generation=generation):
            os.kill(started["child_pid"], DONE)

    def make_room(self) -> None:
        """Ranks that save go on, and end."""
        (self.job.root / "room").touch()

    def ends_with(self, code: int) -> Story:
        assert self.job.end() == code, self.job.events[-1]
        return self.story()

    def story(self) -> Story:
        """To be asked when it has ended."""
        job = self.job
        started, ended = job.all("generation.started"), job.all("generation.ended")
        assert [e["generation"] for e in started] == list(range(len(started)))
        assert [e["generation"] for e in ended] == list(range(len(started)))
        assert not job.all("supervisor.defect")
        assert not job.survivors()
        ready = job.all("rank_table.ready")[: len(started)]
        return Story(
            worlds=[event["world_size"] for event in ready],
            free=[event["free"] for event in job.all("restart.scheduled")],
            triggers=[event["trigger"] for event in job.all("cluster.incident")],
            exit_code=job.events[-1]["exit_code"],
        )
