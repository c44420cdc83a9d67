"""The account of the time: what each second counts as, and that all of them are counted."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_supervisor.progress.account import (
    CATEGORIES,
    Account,
    KeptAccount,
    beginning,
)


def seconds(account: Account, now: float) -> dict[str, float]:
    """By category, only what was spent at all."""
    return {one: spent for one, spent in account.kept(now).account.items() if spent}


def running(start: float = 10.0) -> Account:
    """A generation that has started after 5 s and makes its first step ``start`` s later."""
    return beginning(0.0).waits(0.0).starts(5.0).steps(1, 5.0 + start)


# One generation.


def test_a_job_that_waits_starts_trains_and_ends():
    account = running().steps(2, 17.0).steps(3, 20.0).stops(21.0).stopped(23.0)
    assert seconds(account, 24.0) == {
        "waiting": 5.0,
        "start": 10.0,
        "training": 6.0,
        "stopping": 2.0,
        "restarting": 1.0,
    }
    assert account.kept(24.0).percent_training == 25.0


def test_what_goes_on_is_counted_up_to_now():
    assert seconds(beginning(3.0), 4.0) == {"waiting": 1.0}
    assert seconds(running(), 20.0) == {"waiting": 5.0, "start": 10.0, "training": 5.0}
    assert seconds(running().stops(20.0), 21.0)["stopping"] == 1.0


def test_ranks_that_tell_no_steps_are_unknown():
    account = beginning(0.0).starts(1.0)
    assert seconds(account, 11.0) == {"waiting": 1.0, "unknown": 10.0}
    ended = account.stops(11.0, is_hang=True).stopped(12.0)
    assert seconds(ended, 12.0) == {"waiting": 1.0, "unknown": 10.0, "stopping": 1.0}
    assert ended.kept(12.0).percent_training is None


def test_a_generation_without_a_step_was_a_start_if_another_one_shows_steps():
    failed = beginning(0.0).starts(0.0).stops(30.0).stopped(31.0).starts(32.0)
    assert seconds(failed, 42.0)["unknown"] == 40.0
    assert seconds(failed.steps(1, 42.0), 42.0)["start"] == 40.0
    again = failed.steps(1, 42.0).stops(43.0).stopped(44.0).starts(45.0)
    assert seconds(again, 50.0)["start"] == 45.0


# The end of a generation.


def test_the_time_after_the_last_step_of_a_hang_is_stalled():
    account = running().stops(100.0, is_hang=True)
    assert seconds(account, 100.0) == {"waiting": 5.0, "start": 10.0, "stalled": 85.0}
    assert account.hangs == 1


def test_what_is_told_late_counts_as_of_the_latest_change():
    account = running().stops(20.0).stopped(19.0)
    assert seconds(account, 20.0) == {"waiting": 5.0, "start": 10.0, "training": 5.0}
    late = beginning(0.0).starts(5.0).steps(1, 4.0).steps(2, 6.0)
    assert seconds(late, 6.0) == {"waiting": 5.0, "training": 1.0}


def test_a_hang_before_the_first_step_is_stalled_from_where_a_start_has_always_been_over():
    account = running(10.0).stops(16.0).stopped(16.0).starts(20.0).stops(120.0, is_hang=True)
    assert seconds(account, 120.0)["start"] == 20.0
    assert seconds(account, 120.0)["stalled"] == 90.0
    shorter = running(10.0).stops(16.0).stopped(16.0).starts(20.0).steps(2, 21.0).stops(21.0)
    shorter = shorter.stopped(21.0).starts(21.0).stops(121.0, is_hang=True)
    assert seconds(shorter, 121.0)["stalled"] == 90.0
    soon = running(10.0).stops(16.0).stopped(16.0).starts(20.0).stops(23.0, is_hang=True)
    assert "stalled" not in seconds(soon, 23.0)


def test_only_the_first_reason_to_end_counts():
    account = running().stops(20.0).stops(21.0, is_hang=True)
    assert "stalled" not in seconds(account, 22.0)
    assert (account.hangs, seconds(account, 22.0)["stopping"]) == (0, 2.0)


def test_steps_told_while_the_ranks_are_stopped_make_the_best_step_only():
    account = running().stops(20.0).steps(9, 21.0)
    assert seconds(account, 22.0)["stopping"] == 2.0
    assert account.kept(22.0).best_step == 9


def test_a_start_that_was_withdrawn_goes_back_to_waiting():
    account = beginning(0.0).waits(1.0).waits(2.0).starts(5.0).waits(6.0).starts(8.0).steps(1, 9.0)
    assert seconds(account, 9.0) == {"waiting": 7.0, "start": 2.0}


def test_being_stopped_while_we_wait_or_back_off():
    assert seconds(beginning(0.0).waits(1.0).stops(2.0), 3.0) == {"waiting": 2.0, "stopping": 1.0}
    backing_off = beginning(0.0).starts(0.0).stops(0.0).stopped(0.0)
    assert seconds(backing_off.stops(5.0), 6.0) == {"restarting": 5.0, "stopping": 1.0}


# Steps.


def again(best: int = 100) -> Account:
    """The second generation of a job that had reached ``best``; it has no second yet."""
    return beginning(0.0).starts(0.0).steps(best, 0.0).stops(0.0).stopped(0.0).starts(0.0)


def test_steps_up_to_the_best_one_before_are_trained_again():
    account = again().steps(99, 0.0).steps(100, 2.0).steps(101, 5.0)
    assert seconds(account, 5.0) == {"trained_again": 2.0, "training": 3.0}


def test_the_time_between_two_readings_is_split_at_the_best_step():
    account = again().resumes(90).steps(91, 0.0).steps(111, 20.0)
    assert seconds(account, 20.0) == {"trained_again": 9.0, "training": 11.0}


def test_the_step_that_was_never_finished_is_of_its_kind():
    assert seconds(again().steps(99, 0.0).stops(2.0), 2.0) == {"trained_again": 2.0}
    assert seconds(again().steps(100, 0.0).stops(2.0), 2.0) == {"training": 2.0}


def test_a_step_told_twice_says_nothing_new():
    account = running().steps(1, 16.0).stops(30.0, is_hang=True)
    assert seconds(account, 30.0)["stalled"] == 15.0


def test_a_job_that_goes_back_within_a_generation_trains_again():
    account = running(0.0).steps(10, 15.0).steps(8, 17.0).steps(9, 18.0).steps(11, 20.0)
    assert seconds(account, 20.0) == {"waiting": 5.0, "training": 11.0, "trained_again": 4.0}


def test_steps_within_epochs_start_anew_in_each():
    account = beginning(0.0).starts(0.0).steps(1, 0.0, 1).steps(50, 49.0, 1).steps(1, 50.0, 2)
    assert seconds(account, 50.0) == {"training": 50.0}
    lost = account.stops(50.0).stopped(50.0).starts(50.0)
    lost = lost.resumes(40).steps(41, 50.0, 1).steps(50, 59.0, 1).steps(1, 60.0, 2)
    assert seconds(lost.steps(3, 62.0, 2), 62.0) == {"training": 52.0, "trained_again": 10.0}


@pytest.mark.parametrize(
    ("resumed", "steps", "start"),
    [
        (0, (1, 2), 100.0),
        (0, (1, 100), 100.0),
        (0, (10, 20), 100.0 - 9 * 2.0),
        (0, (100, 200), 0.0),
        (0, (5, 15), 100.0 - 4 * 2.0),
        (1000, (1001, 1011), 100.0),
        (1000, (1010, 1020), 100.0 - 9 * 2.0),
        (1000, (1005, 1010), 100.0 - 4 * 2.0),
    ],
)
def test_steps_before_the_first_that_was_seen_are_no_start(resumed, steps, start):
    """They take 2 s each; the processes to the first step seen 100 s."""
    first, second = steps
    account = beginning(0.0).starts(0.0).resumes(resumed).steps(first, 100.0)
    now = 100.0 + 2.0 * (second - first)
    account = account.steps(second, now)
    found = seconds(account, now)
    assert (found.get("start", 0.0), found["training"]) == (start, now - start)


@pytest.mark.parametrize(
    ("first", "second", "start"),
    [
        ((1, 1), (15, 14), 100.0),
        ((14, 1), (29, 15), 100.0),
        ((9, 9), (12, 3), 100.0 - 8 * 2.0),
        ((30, 3), (50, 2), 100.0 - 29 * 2.0),
    ],
)
def test_steps_that_were_told_together_are_not_taken_for_one_told_step(first, second, start):
    """Each is the last step of a look, and how many it saw; a step takes 2 s."""
    account = beginning(0.0).starts(0.0).steps(first[0], 100.0, told=first[1])
    now = 100.0 + 2.0 * (second[0] - first[0])
    found = seconds(account.steps(second[0], now, told=second[1]), now)
    assert (found["start"], found["training"]) == (start, now - start)


def test_steps_before_the_first_that_was_seen_are_split_at_the_best_one_too():
    account = again(105).resumes(100).steps(110, 100.0).steps(120, 120.0)
    assert seconds(account, 120.0) == {"start": 82.0, "trained_again": 8.0, "training": 30.0}


# Later starts.


def test_a_later_start_goes_on_with_the_account():
    kept = running().steps(2, 17.0).stops(18.0).stopped(20.0).kept(20.0)
    kept = msgspec.json.decode(msgspec.json.encode(kept), type=KeptAccount)
    assert (kept.best_step, kept.generations) == (2, 1)
    account = beginning(1000.0, kept.after(60.0, "restarting")).waits(1000.0).starts(1001.0)
    account = account.steps(1, 1002.0).steps(2, 1003.0).steps(3, 1004.0)
    assert seconds(account, 1004.0) == {
        "waiting": 6.0,
        "start": 11.0,
        "training": 4.0,
        "trained_again": 1.0,
        "stopping": 2.0,
        "restarting": 60.0,
    }
    assert (account.generations, account.hangs) == (2, 0)


def test_a_later_start_learns_that_the_earlier_one_was_a_start():
    kept = beginning(0.0).starts(0.0).stops(30.0).kept(30.0)
    account = beginning(0.0, kept).starts(0.0)
    assert seconds(account, 1.0) == {"unknown": 31.0}
    assert seconds(account.steps(1, 1.0), 1.0) == {"start": 31.0}


def test_a_later_start_keeps_what_a_newer_version_of_the_file_lacks():
    kept = msgspec.json.decode(b'{"account": {"training": 5.0, "dreaming": 1.0}}', type=KeptAccount)
    assert seconds(beginning(0.0, kept), 0.0) == {"training": 5.0}


# Whatever happens.

HAPPENINGS = st.lists(
    st.tuples(
        st.sampled_from(["waits", "starts", "steps", "resumes", "stops", "hangs", "stopped"]),
        st.integers(0, 60),
        st.floats(-1.0, 1e5, allow_nan=False),
    ),
    max_size=60,
)


def after(account: Account, what: str, step: int, now: float) -> Account:
    match what:
        case "steps":
            return account.steps(step, now, epoch=step % 3 // 2)
        case "resumes":
            return account.resumes(step)
        case "hangs":
            return account.stops(now, is_hang=True)
        case _:
            changed: Account = getattr(account, what)(now)
            return changed


@given(
    st.floats(0.0, 1e7),
    HAPPENINGS,
    st.none() | st.dictionaries(st.sampled_from(CATEGORIES), st.floats(0, 1e6)),
)
def test_every_nanosecond_is_in_one_category(begin, happenings, earlier):
    kept = None if earlier is None else KeptAccount(earlier, best_step=30)
    account = beginning(begin, kept)
    before = sum(account.nanoseconds(begin).values())
    now = begin
    for what, step, pause in happenings:
        account = after(account, what, step, now + pause)
        now += max(pause, 0.0)
        spent = account.nanoseconds(now)
        assert sum(spent.values()) == before + round(now * 1e9) - round(begin * 1e9)
        assert min(spent.values()) >= 0
        kept = account.kept(now)
        assert sum(round(1000 * one) for one in kept.account.values()) == round(
            sum(spent.values()) / 1e6
        )
        assert all(abs(kept.account[one] - spent[one] / 1e9) < 0.002 for one in CATEGORIES)
