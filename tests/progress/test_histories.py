"""Whole histories of jobs: the account agrees with a script that knows what each second was.

The script trains step by step and remembers which steps it has trained. The account only sees
what a supervisor sees: some of the steps, and what it does itself. It cannot know the last steps
before an end if nobody told them.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from functools import cache

import pytest

from ascend_supervisor.progress.account import CATEGORIES, Category, beginning
from ascend_supervisor.progress.pace import StepTimes

pytestmark = pytest.mark.thorough

LOSSES = ("crash", "hang", "slow start", "lost steps", "late table", "stop", "two servers")
HISTORIES = 50
OF_ALL = 0.01


class History:
    """A job of steps of about ``step_seconds``, of which every ``told``-th is told.

    ``save`` steps lie between two checkpoints, the next generation goes on from the last of them,
    and may or may not say so.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.now = rng.uniform(0, 1e6)
        self.begin = self.now
        self.truth: dict[Category, float] = defaultdict(float)
        self.account = beginning(self.now)
        self.times = StepTimes()
        self.step_seconds = rng.choice((0.7, 1.0, 3.0))
        self.told = rng.choice((1, 1, 5, 10))
        self.save = rng.choice((50, 100, 200))
        self.trained: set[int] = set()
        self.checkpoint = 0
        self.tells_resumes = rng.random() < 0.5

    def pass_by(self, category: Category, seconds: float) -> None:
        self.truth[category] += seconds
        self.now += seconds

    def wait(self, seconds: float) -> None:
        self.account = self.account.waits(self.now)
        self.pass_by("waiting", seconds)

    def generation(self, steps: int, start: float) -> None:
        """These steps and no more; the first one still belongs to the start."""
        self.account = self.account.starts(self.now)
        if self.tells_resumes:
            self.account = self.account.resumes(self.checkpoint)
        self.times = self.times.starts()
        self.pass_by("start", start)
        first = self.checkpoint + 1
        for step in range(first, first + steps):
            is_new = step not in self.trained
            usual: Category = "training" if is_new else "trained_again"
            self.pass_by("start" if step == first else usual, self.seconds_of_a_step())
            self.trained.add(step)
            if step % self.told == 0:
                self.account = self.account.steps(step, self.now)
                self.times = self.times.steps(step, self.now)
            if step % self.save == 0:
                self.checkpoint = step
        self.is_again = first + steps in self.trained

    def seconds_of_a_step(self) -> float:
        return self.step_seconds * math.exp(self.rng.gauss(0, 0.1))

    def half_a_step(self) -> None:
        self.pass_by("trained_again" if self.is_again else "training", 0.5 * self.step_seconds)

    def end(self, stopping: float) -> None:
        """It was a hang if the pace says so, as in a supervisor."""
        self.account = self.account.stops(self.now, is_hang=self.times.is_silent(self.now))
        self.pass_by("stopping", stopping)
        self.account = self.account.stopped(self.now)
        self.pass_by("restarting", self.rng.uniform(0, 90))


def suffer(history: History, loss: str) -> None:
    """One generation, with this loss at its begin or at its end."""
    rng = history.rng
    start, told = rng.uniform(20, 60), history.told
    waiting, stopping = rng.uniform(0, 5), rng.uniform(1, 30)
    match loss:
        case "slow start":
            start *= 10
        case "late table":
            waiting = rng.uniform(300, 1200)
        case "two servers":  # we wait for the other one, which tells steps at most every 10 s
            waiting = rng.uniform(30, 90)
            history.told = round(10 / history.step_seconds / told + 0.5) * told
        case "lost steps":
            history.checkpoint = max(0, history.checkpoint - 3 * history.save)
        case "stop":  # the ranks save a checkpoint in their grace period
            stopping = rng.uniform(120, 300)
        case _:  # a crash or a hang at the end
            pass
    history.wait(waiting)
    history.generation(rng.randrange(1000, 3000), start)
    if loss == "hang":
        history.pass_by("stalled", rng.uniform(300, 900))
    else:
        history.half_a_step()
    history.end(stopping)
    history.told = told


@cache
def play(seed: int) -> tuple[History, list[str]]:
    rng = random.Random(seed)  # noqa: S311
    history = History(rng)
    losses = [LOSSES[seed % len(LOSSES)], *rng.choices(LOSSES, k=rng.randrange(1, 5))]
    for loss in losses:
        suffer(history, loss)
    return history, losses


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_each_category_is_within_a_hundredth_of_the_truth(seed):
    history, losses = play(seed)
    total = history.now - history.begin
    found = history.account.kept(history.now).account
    assert sum(found.values()) == pytest.approx(total, abs=0.001)
    off = {one: found[one] - history.truth[one] for one in CATEGORIES}
    assert {one: error for one, error in off.items() if abs(error) > OF_ALL * total} == {}, losses
    assert history.account.hangs == losses.count("hang")


def test_the_histories_have_each_loss_and_each_category():
    played = [play(seed) for seed in range(HISTORIES)]
    assert {loss for _, losses in played for loss in losses} == set(LOSSES)
    most: dict[Category, float] = defaultdict(float)
    for history, _ in played:
        for one, spent in history.truth.items():
            most[one] = max(most[one], spent / (history.now - history.begin))
    assert {one for one in CATEGORIES if most[one] > 3 * OF_ALL} == {*CATEGORIES} - {"unknown"}
