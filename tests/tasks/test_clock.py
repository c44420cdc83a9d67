"""Which time counts."""

from __future__ import annotations

import time

import anyio
import pytest

from ascend_supervisor.tasks.clock import TICK_SECONDS, MonotonicClock, RunningLoop, RunningTime
from ascend_supervisor.tasks.race import first

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
