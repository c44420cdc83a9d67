"""Which time counts."""

from __future__ import annotations

import asyncio
import time
from functools import partial

import anyio
import pytest

from ascend_supervisor.tasks.clock import (
    CLOSE,
    SELDOM,
    TICK_SECONDS,
    MonotonicClock,
    RunningLoop,
    RunningTime,
    seldom_looks,
    whole_second,
)
from ascend_supervisor.tasks.race import every, first

HOUR = 3600.0


@pytest.mark.parametrize(
    ("moments", "ran"),
    [
        ((7.0, 7.0), 0.0),
        ((7.0, 7.25), 0.25),
        ((7.0, 7.25, 7.5, 7.5 + TICK_SECONDS), 0.5 + TICK_SECONDS),
        ((7.0, 7.0 + HOUR), TICK_SECONDS),
        ((7.0, 7.25, 7.25 + HOUR, 7.5 + HOUR), 0.25 + TICK_SECONDS + 0.25),
    ],
)
def test_time_in_which_nobody_could_ask_counts_as_one_tick(moments, ran):
    following = iter(moments)
    running = RunningTime(lambda: next(following))
    *_, last = [running.now() for _ in moments[1:]]
    assert last == ran


def test_who_asks_seldom_says_so_and_a_gap_counts_as_that_tick_from_then_on():
    following = iter((0.0, 1.0, 10.0, 11.0, 20.0, 20.0, 30.0))
    running = RunningTime(lambda: next(following))
    assert running.now() == TICK_SECONDS
    running.expect(2.0)  # at 10: the gap before it counts as before
    assert running.now() == 2 * TICK_SECONDS + 1
    running.expect(TICK_SECONDS)  # at 20
    assert running.now() == 2 * TICK_SECONDS + 1 + 2
    assert running.now() == 2 * TICK_SECONDS + 1 + 2 + TICK_SECONDS


class Stopped:
    """The kernel's clock as a process sees it that was stopped for ``seconds`` meanwhile."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.seconds


def run(loop: RunningLoop, task) -> None:
    anyio.run(task, backend_options={"loop_factory": lambda: loop})


@pytest.mark.parametrize("sleep", [anyio.sleep, MonotonicClock().sleep])
def test_a_deadline_waits_for_as_long_as_we_stood_still(sleep):
    clock = Stopped()

    async def wait():
        began = time.monotonic()
        with anyio.move_on_after(1 + TICK_SECONDS):
            clock.seconds += HOUR
            await sleep(2 * HOUR)
        assert time.monotonic() - began >= 1

    run(RunningLoop(clock), wait)


def test_nothing_that_is_waited_for_comes_early():
    async def wait():
        began = time.monotonic()
        await anyio.sleep(0.3)
        assert time.monotonic() - began >= 0.3

    run(RunningLoop(), wait)


def test_a_loop_that_has_nothing_else_to_do_looks_at_the_clock_all_the_same():
    # Otherwise the whole sleep would be a gap, and the next one, and so on.
    async def sleep() -> str:
        await anyio.sleep(4 * TICK_SECONDS)
        return "in time"

    async def sleep_for_twice_as_long() -> str:
        await anyio.run_process(["sleep", str(8 * TICK_SECONDS)])
        return "late"

    async def wait():
        assert await first(sleep, sleep_for_twice_as_long) == "in time"

    run(RunningLoop(), wait)


def test_a_long_wait_with_seldom_looks_counts_a_stop_as_one_tick():
    clock = Stopped()

    async def wait():
        began = time.monotonic()
        with seldom_looks(), anyio.move_on_after(1 + SELDOM.tick):
            clock.seconds += HOUR
            await anyio.sleep(2 * HOUR)
        assert time.monotonic() - began >= 1

    run(RunningLoop(clock), wait)


@pytest.mark.long
def test_with_seldom_looks_all_time_in_which_nothing_was_stopped_counts():
    async def sleep() -> str:
        with seldom_looks():
            await anyio.sleep(4 * SELDOM.look)
        return "in time"

    async def sleep_for_twice_as_long() -> str:
        await anyio.run_process(["sleep", str(8 * SELDOM.look)])
        return "late"

    async def wait():
        assert await first(sleep, sleep_for_twice_as_long) == "in time"

    run(RunningLoop(), wait)


def test_after_a_long_wait_a_stop_counts_as_little_as_before():
    clock = Stopped()

    async def wait():
        with seldom_looks():
            await anyio.lowlevel.checkpoint()
        began = time.monotonic()
        with anyio.move_on_after(1 + CLOSE.tick):
            clock.seconds += HOUR
            await anyio.sleep(2 * HOUR)
        assert time.monotonic() - began >= 1

    run(RunningLoop(clock), wait)


def test_the_end_of_a_long_wait_does_not_lose_the_time_since_the_last_look():
    times = []

    async def wait():
        with seldom_looks():
            time.sleep(1)  # noqa: ASYNC251  (the loop does not look meanwhile)
        times.append(anyio.current_time())

    run(RunningLoop(), wait)
    assert times[0] >= 1


def test_seldom_looks_change_nothing_in_a_loop_of_others():
    async def wait():
        with seldom_looks():
            await anyio.lowlevel.checkpoint()

    anyio.run(wait)


def test_who_waits_for_a_whole_second_wakes_up_together():
    woken: list[float] = []

    async def wake_up_after(seconds: float) -> None:
        await anyio.sleep(seconds)
        await whole_second()
        woken.append(anyio.current_time())

    async def wait():
        await whole_second()
        loop = asyncio.get_running_loop()
        before = loop.time()
        await every(*(partial(wake_up_after, seconds) for seconds in (0.0, 0.1, 0.2)))
        assert min(woken) >= int(before) + 1
        assert len({int(moment) for moment in woken}) == 1

    run(RunningLoop(), wait)


async def test_a_moment_that_has_passed_is_not_waited_for():
    with anyio.fail_after(30):
        await MonotonicClock().sleep(-60)
