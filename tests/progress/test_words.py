"""The sentences about steps and about the time, and what is left out of them."""

from __future__ import annotations

import pytest

from ascend_supervisor.phrases import step_seconds
from ascend_supervisor.progress.account import CATEGORIES, KeptAccount
from ascend_supervisor.progress.words import account_sentence, status_words

MINUTE, HOUR = 60.0, 3600.0


def kept(percent=92.1, generations=1, hangs=0, **seconds: float) -> KeptAccount:
    account: dict[str, float] = {one: seconds.get(one, 0.0) for one in CATEGORIES}
    return KeptAccount(account, percent, 5000, 0, generations, hangs)


def test_the_account_names_what_took_the_rest_the_largest_first():
    account = kept(
        generations=3,
        hangs=1,
        training=626 * MINUTE,
        start=12 * MINUTE,
        trained_again=22 * MINUTE,
        stalled=14 * MINUTE,
        waiting=6 * MINUTE,
    )
    assert account_sentence(account) == (
        "trained 92.1 % of 11 h 20 min; the rest: 22 min trained again, 14 min standing still, "
        "12 min of start, 6 min of waiting (2 restarts, 1 hang)"
    )


@pytest.mark.parametrize(
    ("generations", "hangs", "words"),
    [
        (1, 0, ""),
        (2, 0, " (1 restart)"),
        (3, 0, " (2 restarts)"),
        (1, 1, " (1 hang)"),
        (2, 1, " (1 restart, 1 hang)"),
        (5, 3, " (4 restarts, 3 hangs)"),
    ],
)
def test_the_account_counts_restarts_and_hangs(generations, hangs, words):
    account = kept(90.0, generations, hangs, training=0.9 * HOUR, start=0.1 * HOUR)
    assert account_sentence(account) == f"trained 90 % of 1 h; the rest: 6 min of start{words}"


def test_what_is_small_is_left_out_of_the_account():
    account = kept(99.0, training=99 * HOUR, start=HOUR, waiting=35.0, stopping=0.4)
    assert account_sentence(account) == "trained 99 % of 4 d 4 h; the rest: 1 h of start"
    account = kept(99.9, training=30.0, start=0.3, waiting=0.2)
    assert account_sentence(account) == "trained 99.9 % of 30 s"


def test_each_loss_has_its_words():
    losses = {one: 10.0 + at for at, one in enumerate(CATEGORIES) if one != "training"}
    assert account_sentence(kept(10.0, training=10.0, **losses)).partition(": ")[2] == (
        "17 s without a step, 16 s between generations, 15 s of stopping, "
        "14 s standing still, 13 s trained again, 11 s of start, 10 s of waiting"
    )


def test_a_job_that_showed_no_step_has_no_account():
    assert account_sentence(kept(None, unknown=HOUR)) == ""


def test_the_status_line():
    assert status_words(
        step=1200, steps=5000, seconds_per_step=2.1, checkpoint_step=1000, checkpoint_age=420.0
    ) == (
        "step 1,200 of 5,000 (24 %), 2.1 s a step, 2 h 13 min left; "
        "checkpoint of step 1,000, 7 min ago"
    )


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ({}, ""),
        ({"steps": 5000, "seconds_per_step": 2.0, "checkpoint_age": 3.0}, ""),
        ({"step": 0, "steps": 5000}, "step 0 of 5,000 (0 %)"),
        ({"step": 1200}, "step 1,200"),
        ({"step": 1200, "seconds_per_step": 0.035}, "step 1,200, 35 ms a step"),
        ({"step": 4999, "steps": 5000}, "step 4,999 of 5,000 (99 %)"),
        (
            {"step": 5000, "steps": 5000, "seconds_per_step": 2.0},
            "step 5,000 of 5,000 (100 %), 2 s a step",
        ),
        ({"checkpoint_step": 1000}, "checkpoint of step 1,000"),
        (
            {"step": 7, "checkpoint_step": 5, "checkpoint_age": 0.2},
            "step 7; checkpoint of step 5, 0 s ago",
        ),
    ],
)
def test_what_is_unknown_is_left_out_of_the_status_line(known, words):
    assert status_words(**known) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0004, "0.4 ms"),
        (0.0351, "35 ms"),
        (0.94, "940 ms"),
        (0.999, "1000 ms"),
        (2.04, "2 s"),
        (2.14, "2.1 s"),
        (9.97, "10 s"),
        (118.0, "120 s"),
        (150.0, "2 min"),
    ],
)
def test_the_time_of_a_step_has_two_digits(seconds, words):
    assert step_seconds(seconds) == words
