"""How long steps take: the learnt limit of a stall, slow steps, and no false alarms."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator
from itertools import repeat

import pytest

from ascend_supervisor.progress.pace import FIRST_STEP_SECONDS, Slow, StepTimes, slow_rank

USUAL = 2.0
STEPS = 100_000


def after(seconds: Iterable[float], times: StepTimes | None = None, count: int = 1) -> StepTimes:
    """After readings so many seconds apart, ``count`` steps each."""
    times = times or StepTimes().steps(1, 0.0)
    assert times.last is not None
    for pause in seconds:
        times = times.steps(times.last.step + count, times.last.at + pause)
        assert times.last is not None
    return times


def seeded(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 -- no secret


def noisy(rng: random.Random, sigma: float) -> Iterator[float]:
    while True:
        yield USUAL * math.exp(rng.gauss(0, sigma))


def training(rng: random.Random, sigma: float) -> Iterator[float]:
    """With an evaluation of up to 40 s every 250 steps, and a checkpoint of up to 90 s every 600.

    Hiccups, too: one step of 100 waits for a slow storage.
    """
    for step, seconds in enumerate(noisy(rng, sigma), 1):
        evaluation = 0 if step % 250 else rng.uniform(20, 40)
        checkpoint = 0 if step % 600 else rng.uniform(45, 90)
        hiccup = rng.uniform(1, 10) if rng.random() < 0.01 else 0
        yield seconds + evaluation + checkpoint + hiccup


# Seconds per step.


def test_the_seconds_per_step_are_the_median_of_the_last_twenty():
    assert StepTimes().steps(1, 0.0).seconds_per_step is None
    assert after([3.0]).seconds_per_step == 3.0
    assert after([9.0] * 50 + [1.0] * 9 + [2.0] * 3 + [60.0] * 8).seconds_per_step == 2.0


def test_a_reading_that_grew_by_many_counts_the_time_of_each():
    assert after([20.0] * 3, count=10).seconds_per_step == 2.0


def test_steps_faster_than_anybody_looks_are_measured_together():
    """Of steps of 60 ms, looks every 50 ms see most in 0.05 s and some in 0.1 s."""
    times = StepTimes()
    for look in range(200):
        times = times.steps(int(look * 0.05 / 0.06), look * 0.05)
    assert times.seconds_per_step == pytest.approx(0.06, rel=0.1)


@pytest.mark.parametrize("step", [1, 5])
def test_a_step_that_does_not_grow_is_no_time_of_a_step(step):
    times = after([2.0] * 4).steps(step, 100.0)
    assert times.seconds_per_step == 2.0
    assert (times.pauses, times.longest) == ((4, 2.0) if step == 5 else (5, 92.0))


# Stalls.


def test_the_limit_is_learnt_after_ten_pauses_and_until_then_it_is_that_of_the_first_step():
    assert after([]).stall_limit == FIRST_STEP_SECONDS
    assert after([2.0] * 9).stall_limit == FIRST_STEP_SECONDS
    assert after([400.0] * 9).stall_limit == 2000
    assert after([2.0] * 10).stall_limit == 60


def test_the_limit_is_five_times_the_longest_pause():
    assert after([*[2.0] * 20, 100.0, *[2.0] * 5000]).stall_limit == 500


def test_the_limit_is_a_minute_at_least():
    steady = after([0.2] * 50)
    assert steady.stall_limit == 60
    assert after([5.0], steady).stall_limit == 60
    assert after([15.0], steady).stall_limit == 75


def test_coarse_readings_have_their_own_pauses():
    """A job that tells every hundredth step says nothing for 200 s, and does not stall."""
    assert after([200.0] * 10, count=100).stall_limit == 1000


def test_pauses_survive_a_restart_and_the_start_is_none():
    times = after([*[2.0] * 20, 100.0]).starts()
    assert times.stall_limit == 500
    assert times.steps(7, 10_000.0).steps(8, 10_002.0).stall_limit == 500


def test_an_evaluation_that_was_taken_for_a_hang_is_not_taken_for_one_twice():
    times = after([2.0] * 20)
    assert times.last is not None
    place = times.last.step
    times = times.gave_up(300.0).starts().steps(place - 2, 0.0).steps(place - 1, 2.0)
    assert times.stall_limit == 600
    assert times.steps(place, 4.0).stall_limit == 600
    assert times.steps(place, 4.0).steps(place + 1, 404.0).stall_limit == 2000


def test_after_a_hang_that_was_one_the_limit_is_as_before():
    times = after([2.0] * 20)
    assert times.last is not None
    place = times.last.step
    assert (
        times.gave_up(300.0).starts().steps(place + 1, 0.0).steps(place + 2, 2.0).stall_limit == 60
    )
    assert StepTimes().gave_up(300.0) == StepTimes()


def test_silent_is_what_no_pause_has_been():
    times = after([2.0, 5.0, 2.0])
    assert not times.is_silent(9.0 + 10.0)
    assert times.is_silent(9.0 + 10.1)
    assert not times.starts().is_silent(1000.0)
    assert not StepTimes().steps(1, 0.0).is_silent(1000.0)


# Slow.


def test_slow_is_told_within_five_steps_and_over_when_half_of_25_are_normal():
    times = after(repeat(2.0, 200))
    assert after([2.75] * 2, times).slow is None
    slow = after([2.75] * 5, times)
    assert slow.slow == Slow(2.0, 2.75)
    assert after([2.75] * 1000, slow).slow == slow.slow
    longer = after([2.75] * 30, slow)
    assert after([2.0] * 12, longer).slow == slow.slow
    assert after([2.0] * 13, longer).slow is None


def test_a_fifth_is_not_slow():
    assert after([2.0] * 200 + [2.4] * 500).slow is None


def test_slow_needs_a_hundred_steps_before():
    assert after([2.0] * 99 + [4.0] * 5).slow is None
    assert after([2.0] * 100 + [4.0] * 5).slow == Slow(2.0, 4.0)


def test_pauses_do_not_hide_that_steps_are_slow():
    before = [60.0 if at % 20 == 0 else 2.0 for at in range(200)]
    assert after(before + [2.75] * 5).slow == Slow(2.0, 2.75)


def test_the_first_steps_of_a_generation_are_not_slow():
    times = after([2.0] * 200).starts().steps(150, 1000.0)
    warming = after([8.0] * 9, times)
    assert warming.slow is None
    assert after([2.0] * 300, warming).slow is None
    assert after([2.75] * 15, times).slow == Slow(2.0, 2.75)


@pytest.mark.parametrize("sigma", [0.0, 0.01, 0.02])
def test_a_steady_job_tells_30_percent_within_five_steps(sigma):
    for seed in range(30):
        rng = seeded(seed)
        times = after(seconds for seconds, _ in zip(noisy(rng, sigma), range(300), strict=False))
        slow = after((1.3 * next(noisy(rng, sigma)) for _ in range(5)), times)
        assert times.slow is None
        assert slow.slow is not None


@pytest.mark.parametrize(
    ("sigma", "factor", "steps"),
    [(0.05, 1.3, 25), (0.05, 1.5, 5), (0.1, 2.0, 5), (0.2, 2.0, 25), (0.3, 3.0, 25)],
)
def test_a_noisy_job_tells_it_later_or_when_it_is_slower(sigma, factor, steps):
    for seed in range(30):
        rng = seeded(seed)
        times = after(seconds for seconds, _ in zip(noisy(rng, sigma), range(300), strict=False))
        assert times.slow is None
        slow = False
        for _ in range(steps):
            times = after([factor * next(noisy(rng, sigma))], times)
            slow = slow or times.slow is not None
        assert slow


@pytest.mark.thorough
@pytest.mark.parametrize(("sigma", "seed"), [(0.03, 1), (0.2, 2), (1.0, 3)])
def test_no_false_alarm_in_100_000_noisy_steps(sigma, seed):
    times = StepTimes().steps(0, 0.0)
    at = 0.0
    for step, seconds in zip(range(1, STEPS), training(seeded(seed), sigma), strict=False):
        assert seconds < times.stall_limit
        at += seconds
        times = times.steps(step, at)
        assert times.slow is None


# Ranks.


@pytest.mark.parametrize(
    ("seconds", "slow"),
    [
        ({}, None),
        ({0: 2.0}, None),
        ({0: 2.0, 1: 2.5}, None),
        ({0: 2.0, 1: 2.6}, Slow(2.0, 2.6, 1)),
        ({0: 1.0, 1: 2.0, 5: 3.0, 7: 2.0}, Slow(2.0, 3.0, 5)),
        ({0: 3.0, 1: 4.0, 5: 2.0, 7: 2.0}, Slow(2.0, 4.0, 1)),
        ({0: 0.0, 1: 0.0}, None),
    ],
)
def test_the_rank_that_is_slower_than_the_others_is_named(seconds, slow):
    assert slow_rank(seconds) == slow
