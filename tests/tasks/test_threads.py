"""Calls that may block: an answer that may not come in time, and how many may be stuck."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from threading import Event

import anyio
import pytest

from ascend_supervisor.tasks.threads import Call, check_room, in_turn

TASKS = Path("/proc/self/task")


def test_an_answer_in_time_is_taken():
    assert Call(lambda: "there").within(30.0, "unknown") == "there"


def test_where_none_comes_in_time_the_other_counts():
    never = Event()
    try:
        assert Call(lambda: str(never.wait())).within(0.01, "unknown") == "unknown"
    finally:
        never.set()


def test_an_error_is_raised_at_once():
    with pytest.raises(RuntimeError, match="a loop of links"):
        Call(partial(raising, RuntimeError("a loop of links"))).within(30.0, "unknown")


def raising(error: Exception) -> str:
    raise error


def test_the_threads_that_check_for_room_take_none_afterwards():
    """The kernel has a thread for a moment longer than Python."""
    for _ in range(100):
        before = {*TASKS.iterdir()}
        check_room(8)
        assert {*TASKS.iterdir()} <= before


async def test_calls_that_are_stuck_keep_their_places_although_nobody_waits_any_more():
    """Else each further look would leave further threads behind."""
    places = anyio.Semaphore(2)
    go_on = Event()
    begun: list[int] = []

    def stuck() -> int:
        begun.append(len(begun))
        go_on.wait(30)
        return 7

    try:
        for _ in range(5):
            with anyio.move_on_after(0.05) as scope:
                await in_turn(stuck, places)
            assert scope.cancelled_caught
        with anyio.fail_after(30):
            while len(begun) < 2:  # a thread may start late
                await anyio.sleep(0.005)
        assert begun == [0, 1]
    finally:
        go_on.set()
    with anyio.fail_after(30):
        assert await in_turn(stuck, places) == 7
    assert begun == [0, 1, 2]


async def test_the_result_of_a_call_is_kept_for_who_comes_back():
    go_on = Event()
    call = Call(lambda: go_on.wait() and "kept")
    with anyio.move_on_after(0.05) as scope:
        await call.result()
    assert scope.cancelled_caught
    assert not call.is_done
    go_on.set()
    with anyio.fail_after(30):
        assert await call.result() == "kept"
        assert await call.result() == "kept"


async def test_what_a_call_raises_that_nobody_waits_for_is_no_complaint():
    """pytest would turn a complaint of the event loop into a failure."""
    over = anyio.Event()
    Call(partial(raising, PermissionError("not for you"))).then(over.set)
    with anyio.fail_after(30):
        await over.wait()


def test_a_call_that_outlives_its_event_loop_ends_without_a_complaint(caplog):
    go_on = Event()

    async def given_up() -> Call[bool]:
        call = Call(go_on.wait)
        with anyio.move_on_after(0.05):
            await call.over()
        return call

    call = anyio.run(given_up)
    go_on.set()
    assert call.within(30.0, otherwise=False)
    assert Call(lambda: 7).within(30.0, 0) == 7  # by the same thread, after what that had to tell
    assert not caplog.records


def test_threads_that_have_made_a_call_make_the_next_ones():
    before = {*TASKS.iterdir()}
    for _ in range(200):
        assert Call(lambda: 7).within(30.0, 0) == 7
    assert len({*TASKS.iterdir()} - before) <= 1
