"""How often a long wait is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import accumulate, islice

import pytest

from ascend_supervisor.tasks.long_wait import (
    CLUSTER,
    RELEASE,
    SERVERS,
    STOP,
    SWEEP,
    TABLE,
    Intervals,
    LongWait,
)


def test_each_interval_is_twice_as_long_up_to_the_longest():
    assert list(islice(Intervals(1, 3, 20), 7)) == [1, 3, 6, 12, 20, 20, 20]


@pytest.mark.parametrize(
    ("intervals", "told_after"),
    [
        (TABLE, [0, 10, 30, 70, 150, 310, 610, 910, 1210]),
        (CLUSTER, [0, 30, 90, 210, 450, 750, 1050]),
        (SERVERS, [2, 32, 92, 212]),
        (RELEASE, [0, 10, 30, 70, 130, 190, 250]),
        (STOP, [5, 15, 35, 75, 135, 195]),
        (SWEEP, [3, 9, 21]),
    ],
    ids=["table", "cluster", "servers", "release", "stop", "sweep"],
)
def test_the_first_messages_come_early_and_the_later_ones_seldom(intervals, told_after):
    assert list(islice(accumulate(intervals), len(told_after))) == told_after


def told(reason_at: Callable[[float], str], until: float, ends: list[float]) -> Iterable[float]:
    """When it is told that we wait, if we look ten times a second."""
    time = 100.0
    found = []
    with LongWait(Intervals(0, 10, 60, change=1), lambda: time, ends.append) as wait:
        for tenth in range(int(until * 10)):
            time = 100 + tenth / 10
            if wait.is_due(reason_at(time - 100)):
                found.append(wait.told(reason_at(time - 100)))
    return found


def test_a_new_reason_is_told_besides_and_leaves_the_intervals_as_they_are():
    assert told(lambda time: "a" if time < 12 else "b", 40, []) == [0, 10, 12, 32]


def test_reasons_that_change_fast_are_not_all_told():
    assert told(lambda time: f"{int(time * 5)}", 3, []) == [0, 1, 2]


def test_the_end_is_told_once_if_the_wait_was():
    ends: list[float] = []
    told(lambda _: "a", 2.1, ends)
    assert ends == [2.0]
    with LongWait(STOP, lambda: 7.0, ends.append) as wait:
        assert not wait.is_due()
        assert wait.pause == 5
    assert ends == [2.0]
