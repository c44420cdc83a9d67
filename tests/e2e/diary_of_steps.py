"""What a training script did, in a file beside its output, and what the supervisor told of it.

Each line is ``seconds of the day's clock, what, step``; a training that begins again writes on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

DRAWN_SECONDS = 0.15
"""tqdm draws at most ten times a second, and then only after the next step."""
DRAWN_STEPS = 6
"""When steps become slower, tqdm still draws only every so many as it did before."""
BELIEVED = 3
"""A bar that may count anything is believed after so many drawings."""
LOOK_SECONDS = 0.5
"""A look may come as late on a loaded machine."""
MOMENT = 0.002
"""Events are stamped in milliseconds."""


class DiaryOfSteps:
    """``write`` at once what has been done: the supervisor must not know of it earlier."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, what: str, step: int) -> None:
        os.write(self._file, f"{time.time():.6f} {what} {step}\n".encode())


@dataclass(frozen=True)
class Life:
    """One generation: the ``steps`` with their times, and the others as they were written."""

    resumed: int
    steps: tuple[tuple[float, int], ...]
    saved: tuple[int, ...]

    def reached(self, moment: float) -> int:
        """The last step that was made before ``moment``."""
        return max((step for at, step in self.steps if at <= moment), default=self.resumed)

    @property
    def end(self) -> float:
        return self.steps[-1][0]


def lives_of(path: Path) -> list[Life]:
    """Each life writes ``resumed`` first."""
    entries = [line.split() for line in path.read_text().splitlines()]
    begins = [n for n, entry in enumerate(entries) if entry[1] == "resumed"]
    return [_life(entries[a:b]) for a, b in pairwise([*begins, len(entries)])]


def _life(entries: list[list[str]]) -> Life:
    steps = tuple((float(at), int(step)) for at, what, step in entries if what == "step")
    saved = tuple(int(step) for _, what, step in entries if what == "saved")
    return Life(int(entries[0][2]), steps, saved)


Event = dict[str, Any]


def false_steps(events: list[Event], lives: list[Life]) -> Iterator[str]:
    """What the events say of steps that is not what the training did.

    Each must be one that was made in this generation, and the last one as far as a bar tells it,
    or where a bar began that was believed a few drawings later.
    When a generation has ended, everything has been read.
    """
    for event in events:
        name, step = event["event"], event.get("step")
        if name not in TOLD_LATE:
            continue
        life = lives[event["generation"]]
        now = datetime.fromisoformat(event["ts"].replace("Z", "+00:00")).timestamp() + MOMENT
        moment, most = min(now, life.end) - TOLD_LATE[name], life.reached(now)
        least = min(life.reached(moment), most - DRAWN_STEPS)
        made = {step for _, step in life.steps}
        if step not in made or not least <= step <= most + AHEAD_STEPS:
            yield f"{name}: step {step} of generation {event['generation']}, not {least} to {most}"


AHEAD_STEPS = 1
"""How far another rank, which may be the one that tells, is ahead of the one with the diary."""
TOLD_LATE = {
    "training.started": BELIEVED * DRAWN_SECONDS + LOOK_SECONDS,  # the first of them is told
    "training.progress": DRAWN_SECONDS + LOOK_SECONDS,
    "generation.ended": DRAWN_SECONDS,
}
"""Which events tell the last step, and how many seconds later at most."""
