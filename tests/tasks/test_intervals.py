"""How often a long wait is told."""

from __future__ import annotations

from itertools import accumulate

import pytest

from ascend_supervisor.tasks.clock import RELEASE, STOP, SWEEP, TABLE, Interval


def first(interval: Interval, count: int) -> list[float]:
    found = []
    for _ in range(count):
        found.append(interval.seconds)
        interval = interval.longer
    return found


def test_each_interval_is_twice_as_long_up_to_the_longest():
    assert first(Interval(3, 20), 6) == [3, 6, 12, 20, 20, 20]


@pytest.mark.parametrize(
    ("interval", "told_after"),
    [
        (TABLE, [10, 30, 70, 150, 310, 610, 910, 1210]),
        (RELEASE, [10, 30, 70, 130, 190, 250]),
        (STOP, [5, 15, 35, 75, 135, 195]),
        (SWEEP, [3, 9, 21]),
    ],
    ids=["table", "release", "stop", "sweep"],
)
def test_the_first_messages_come_early_and_the_later_ones_seldom(interval, told_after):
    assert list(accumulate(first(interval, len(told_after)))) == told_after
