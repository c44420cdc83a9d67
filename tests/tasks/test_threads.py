"""Calls that may block: an answer that may not come in time, and how many may be stuck."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from threading import Event

import anyio
import pytest

from ascend_supervisor.tasks.threads import Errand, answer_of, check_room

TASKS = Path("/proc/self/task")


def test_an_answer_in_time_is_taken():
    assert answer_of(lambda: "there", 30.0, "unknown") == "there"


def test_where_none_comes_in_time_the_other_counts():
    never = Event()
    try:
        assert answer_of(lambda: str(never.wait()), 0.01, "unknown") == "unknown"
    finally:
        never.set()


def test_an_error_is_raised_at_once():
    with pytest.raises(RuntimeError, match="a loop of links"):
        answer_of(partial(raising, RuntimeError("a loop of links")), 30.0, "unknown")


def raising(error: Exception) -> str:
    raise error


def test_the_threads_that_check_for_room_take_none_afterwards():
    """The kernel has a thread for a moment longer than Python."""
    for _ in range(100):
        before = {*TASKS.iterdir()}
        check_room(8)
        assert {*TASKS.iterdir()} <= before


async def test_calls_that_are_stuck_count_although_nobody_waits_for_them_any_more():
    """Else each further look would leave further threads behind."""
    limiter = anyio.CapacityLimiter(2)
    go_on = Event()
    begun: list[int] = []

    def stuck() -> int:
        begun.append(len(begun))
        go_on.wait(30)
        return 7

    try:
        errands = [Errand(stuck, limiter) for _ in range(5)]
        for errand in errands:
            with anyio.move_on_after(0.05) as scope:
                await errand.result()
            assert scope.cancelled_caught
        assert begun == [0, 1]
        assert limiter.borrowed_tokens == 2
    finally:
        go_on.set()
    with anyio.fail_after(30):
        assert [await errand.result() for errand in errands] == [7] * 5
    assert len(begun) == 5
