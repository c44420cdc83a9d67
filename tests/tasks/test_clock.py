"""Which time counts."""

from __future__ import annotations

import pytest

from ascend_supervisor.tasks.clock import TICK_SECONDS, RunningTime


@pytest.mark.parametrize(
    ("moments", "ran"),
    [
        ((7.0, 7.0), 0.0),
        ((7.0, 7.25), 0.25),
        ((7.0, 7.25, 7.5, 8.5), 1.5),
        ((7.0, 7.0 + 3600), TICK_SECONDS),
        ((7.0, 7.25, 7.25 + 3600, 7.5 + 3600), 0.25 + TICK_SECONDS + 0.25),
    ],
)
def test_time_in_which_nobody_could_ask_counts_as_one_tick(moments, ran):
    following = iter(moments)
    time = RunningTime(lambda: next(following))
    *_, last = [time.now() for _ in moments[1:]]
    assert last == ran
