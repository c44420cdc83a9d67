"""Jobs by a script of chance: what each rank is told to do, and the truth about its time.

The truth comes from the diaries of the ranks and from what the script says, not from what a
supervisor tells of its time; only when its life began and ended is its own word.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

LOSSES = ("crash", "hang", "slow start", "lost steps", "late table", "stop", "two servers")
SHORT = 8
"""The first seeds give jobs of some seconds; the others go on LONGER times as long."""
LONGER = 4
HANG_SECONDS = 1.0
"""So long all are silent until it is noticed."""
ENDS = {"hang": "hang", "stop": "stop"}
Truth = dict[str, float]


@dataclass
class Plan:
    """One generation: ``end`` is done, crash, hang, stop, or other (another server ends it).

    ``saving`` seconds pass between SIGTERM and the end of a rank. The table comes ``late`` seconds
    after it was asked for; for this, a rank before it ``withdraws`` it.
    """

    first: int
    last: int
    step_seconds: float
    start: float
    end: str
    saving: float
    late: float = 0.0
    withdraws: str = ""


@dataclass
class Script:
    """``plans`` of the generations of each server, the last of which may be ``stopped_after``.

    ``delay`` seconds lie between two generations. The second server comes ``second`` seconds late.
    ``stopped_after`` seconds of waiting for a table that never comes, the job is stopped.
    """

    losses: list[str]
    plans: list[list[Plan]]
    delay: float
    second: float = 0.0
    stopped_after: float | None = None


def script_of(seed: int, table: str) -> Script:
    """The first loss of the seeds goes round; a second one is chosen by chance."""
    rng = random.Random(seed)  # noqa: S311
    longer = LONGER if seed >= SHORT else 1
    first = LOSSES[seed % len(LOSSES)]
    losses = sorted([first, rng.choice(LOSSES[:5])], key=lambda loss: loss == "stop")
    plans: list[Plan] = []
    best = lost = 0
    for loss in [*losses, *([] if "stop" in losses else ["done"])]:
        plans.append(_plan(rng, longer, loss, best, lost))
        best = plans[-1].last
        lost = rng.randrange(10, 20) if loss == "lost steps" else rng.randrange(5)
        if plans[-1].late and len(plans) > 1:
            plans[-2].withdraws = table
    script = Script(losses, [plans], longer * rng.uniform(0.1, 0.3))
    if "stop" in losses and rng.random() < 0.5:
        plans[-1].end, plans[-1].withdraws = "crash", table
        script.stopped_after = longer * rng.uniform(0.5, 1.0)
    if "two servers" in losses:
        script.second = longer * rng.uniform(0.5, 1.5)
        script.plans = [plans, [_of_other(rng, plan) for plan in plans]]
        rng.shuffle(script.plans)
    return script


def _plan(rng: random.Random, longer: int, loss: str, best: int, lost: int) -> Plan:
    first = max(best - lost, 0) + 1
    last = max(best, first) + rng.randrange(12, 20)
    start = longer * (rng.uniform(0.6, 1.2) if loss == "slow start" else rng.uniform(0.0, 0.2))
    saving = longer * (rng.uniform(0.3, 0.8) if loss == "stop" else rng.uniform(0.0, 0.2))
    end = "done" if loss == "done" else ENDS.get(loss, "crash")
    late = longer * rng.uniform(0.4, 0.9) if loss == "late table" else 0.0
    return Plan(first, last, longer * rng.uniform(0.03, 0.05), start, end, saving, late)


def _of_other(rng: random.Random, plan: Plan) -> Plan:
    """The same steps on another server, which waits for those of the first."""
    end = "other" if plan.end == "crash" else plan.end
    steps = (plan.first, plan.last, plan.step_seconds, plan.start)
    return Plan(*steps, end, rng.uniform(0.0, 0.3), plan.late)


def lateness(diary: Path, plans: list[Plan]) -> float:
    """By how much a rank slept longer than it wanted, at most: the machine does everything late."""
    notes = [json.loads(line) for line in diary.read_text().splitlines()]
    late: Iterator[float] = (
        note["at"] - before["at"] - plans[note["generation"]].step_seconds
        for before, note in pairwise(notes)
        if before["what"] == note["what"] == "step"
    )
    return max(late)


def last(diary: Path) -> float:
    """The moment of the last thing that a rank wrote down."""
    return float(json.loads(diary.read_text().splitlines()[-1])["at"])


def truth(diary: Path, begin: float, end: float, script: Script) -> Truth:
    """Seconds by category, of a supervisor that lived from ``begin`` to ``end``."""
    spent: Truth = defaultdict(float)
    notes = [json.loads(line) for line in diary.read_text().splitlines()]
    best, at = 0, begin
    for generation, group in groupby(notes, itemgetter("generation")):
        told = list(group)
        born, over = told[0]["at"], told[-1]["at"]
        delay = script.delay if generation else 0.0
        spent["restarting"] += delay
        spent["waiting"] += born - at - delay
        for category, seconds in _generation(told, best):
            spent[category] += seconds
        best = max([best, *(note["step"] for note in told)])
        at = over
    if script.stopped_after is None:
        spent["stopping"] += end - at
    else:
        spent["restarting"] += script.delay
        spent["waiting"] += end - at - script.delay
    return spent


def _generation(notes: list[dict[str, Any]], best: int) -> Iterator[tuple[str, float]]:
    for before, note in pairwise(notes):
        seconds = note["at"] - before["at"]
        match before["what"], note["what"]:
            case "born", _:
                yield "start", seconds
            case "step", "hung":  # the rest is the look at the ranks
                yield "stalled", HANG_SECONDS
                yield "stopping", seconds - HANG_SECONDS
            case "step", _:  # this step, or the one that was never finished
                yield "trained_again" if before["step"] < best else "training", seconds
            case _:
                yield "stopping", seconds
