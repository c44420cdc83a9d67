"""The last line of a terminal, on an emulated screen."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from ascend_supervisor.events import Event, Level
from ascend_supervisor.events.leftovers import StopWaiting, WaitEnded
from ascend_supervisor.events.rank_table import RankTableWaiting
from ascend_supervisor.events.supervisor import SignalReceived, SupervisorExited
from ascend_supervisor.output.console import Console
from ascend_supervisor.output.console_thread import Plain
from ascend_supervisor.output.footer import ERASE, WAIT, Footer, columns_of
from ascend_supervisor.output.json_lines import Origin
from ascend_supervisor.reporters.event_log import text_log
from ascend_supervisor.reporters.wait_line import WaitLine
from tests.clocks import LeapingClock
from tests.running import DEADLINE_SECONDS, wait_until
from tests.terminals import Window

WAITING = RankTableWaiting("/t", "status is 'initializing'", 0.0, 1800.0)
LOOK = b"\x1b[s"
"""Steers nothing, and shows that all before it was read."""
WORDS = "waiting for the rank table /t: status is 'initializing'"


@pytest.fixture
def window() -> Iterator[Window]:
    window = Window(columns=100, rows=10)
    yield window
    window.close()


def without_time(line: str) -> str:
    """The first line has date and zone, too."""
    return re.sub(r"^(\d{4}-\d\d-\d\d )?[\d:.]{12} (UTC |[+-]\d\d:\d\d )?", "", line)


class Shown:
    """A WaitLine on a window, whose clock stands still."""

    def __init__(self, window: Window, level: Level = "info") -> None:
        self.window = window
        self.clock = LeapingClock()
        self.console = Console(window.stdout)
        report = text_log(self.console, Origin("job", "host", 7), level)
        self.line = WaitLine(self.console, report, level, self.clock)

    async def after(self, *events: Event) -> list[str]:
        """The lines on the screen after these events."""
        for event in events:
            self.line.report(event)
        return await self.lines()

    async def lines(self) -> list[str]:
        with anyio.fail_after(DEADLINE_SECONDS):
            assert await self.console.finish()
        looks = self.window.data.count(LOOK)
        os.write(self.window.stdout, LOOK)
        wait_until(lambda: self.window.data.count(LOOK) > looks)
        return self.window.lines


@asynccontextmanager
async def kept(shown: Shown) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(shown.line.keep_current)
        yield
        tasks.cancel_scope.cancel()


async def test_a_wait_is_one_line_of_which_nothing_stays(window):
    shown = Shown(window)
    assert await shown.after(WAITING) == [f"{WORDS} (0 s, until 30 min)"]
    shown.clock.time = 45.0
    again = RankTableWaiting("/t", "the file is empty", 45.0, 1800.0)
    assert await shown.after(again) == [
        "waiting for the rank table /t: the file is empty (45 s, until 30 min)"
    ]
    assert await shown.after(WaitEnded(46.0)) == []


async def test_it_is_drawn_anew_every_second_with_the_time_so_far(window):
    shown = Shown(window)
    async with kept(shown):
        shown.line.report(WAITING)
        shown.clock.time = 130.0
        with anyio.fail_after(DEADLINE_SECONDS):
            while window.lines != [f"{WORDS} (2 min 10 s, until 30 min)"]:
                await anyio.sleep(0.01)
        shown.line.report(WaitEnded(130.0))
        assert await shown.lines() == []
        shown.clock.time = 200.0
        shown.line.report(WAITING)  # a second wait is kept current like the first
        shown.clock.time = 203.0
        with anyio.fail_after(DEADLINE_SECONDS):
            while window.lines != [f"{WORDS} (3 s, until 30 min)"]:
                await anyio.sleep(0.01)


async def test_lines_between_two_drawings_are_whole(window):
    shown = Shown(window)
    expected = []
    for number in range(200):
        text = f"[rank {number}] " + "x" * (number % 60 + 1)
        expected.append(text)
        shown.line.report(RankTableWaiting("/t", "empty", float(number)))
        shown.console.put(Plain(f"{text}\n".encode()))
    assert (await shown.lines())[:-1] == expected
    assert (await shown.after(WAITING))[:-1] == expected
    assert (await shown.after(WaitEnded(9.0))) == expected


async def test_other_events_are_lines_above_it(window):
    shown = Shown(window)
    signal = SignalReceived("SIGHUP", "the log files are opened anew")
    await shown.after(WAITING)
    await shown.after(signal)
    lines = await shown.after(RankTableWaiting("/t", WAITING.reason, 1.0))
    assert [without_time(line) for line in lines[:-1]] == [signal.msg]
    assert lines[-1].startswith(WORDS)


async def test_long_words_are_also_a_line_that_stays_once(window):
    shown = Shown(window)
    reason = f"there is no such file; looked for {'/user/config ' * 9}; without a cluster, use this"
    waits = [RankTableWaiting("/t", reason, seconds) for seconds in (0.0, 10.0, 20.0)]
    lines = await shown.after(*waits)
    assert "".join(lines).count("without a cluster, use this (0 s so far)") == 1
    assert lines[-1].endswith("... (20 s)")
    lines = await shown.after(replace(waits[0], path="/u"), replace(waits[1], path="/u"))
    assert "".join(lines).count("without a cluster, use this") == 2
    assert await shown.after(WaitEnded(30.0)) == lines[:-1]


async def test_what_is_given_up_is_a_line_that_stays(window):
    shown = Shown(window)
    left = ("7 (state D): python",)
    lines = await shown.after(
        StopWaiting(left, 3.0, 30.0), WaitEnded(30.0), StopWaiting(left, given_up=True)
    )
    assert [without_time(line) for line in lines] == [
        "warning: SIGKILL has not ended: 7 (state D): python",
    ]


async def test_after_the_last_event_there_is_none(window):
    shown = Shown(window)
    end = SupervisorExited(75, "no table", 0, None)
    lines = await shown.after(WAITING, end, WAITING)
    assert [without_time(line) for line in lines] == [f"error: {end.msg}"]


@pytest.mark.parametrize(("level", "count"), [("info", 1), ("warning", 0)])
async def test_a_wait_below_the_level_is_not_shown(window, level, count):
    shown = Shown(window, level)
    assert len(await shown.after(WAITING)) == count


@pytest.mark.parametrize("columns", [200, 79, 40, 12, 3, 1])
async def test_it_is_never_wider_than_the_window(columns):
    window = Window(columns, 10)
    try:
        (line,) = await Shown(window).after(WAITING) or [""]
        assert len(line) < columns
    finally:
        window.close()


async def test_after_a_change_of_the_window_it_fits_again(window):
    shown = Shown(window)
    await shown.after(WAITING)
    window.resize(30, 10)
    shown.clock.time = 1.0
    (line,) = await shown.after(RankTableWaiting("/t", "the file is empty", 1.0))
    assert line.endswith("... (1 s)")
    assert len(line) < 30
    window.resize(100, 10)
    (line,) = await shown.after(RankTableWaiting("/t", "the file is empty", 1.0, 9.0))
    assert line == "waiting for the rank table /t: the file is empty (1 s, until 9 s)"


async def test_a_terminal_of_unknown_width_counts_as_80_columns():
    window = Window(0, 0)
    try:
        assert columns_of(window.stdout) == 79
    finally:
        window.close()


async def test_what_is_no_terminal_never_has_one(tmp_path):
    path = tmp_path / "out"
    with path.open("wb") as file:
        console = Console(file.fileno())
        console.keep(WAIT, lambda _: "words")
        console.put(Plain(b"a line\n"))
        console.keep(WAIT, lambda _: "words")
        assert await console.finish()
    assert path.read_bytes() == b"a line\n"


IN_THE_BACKGROUND = """
import fcntl, os, signal, subprocess, sys, termios
os.setsid()
fcntl.ioctl(1, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
from ascend_supervisor.output.footer import columns_of
report = [columns_of(1)]
other = subprocess.Popen(["sleep", "600"], process_group=0) if sys.version_info >= (3, 11) else (
    subprocess.Popen(["sleep", "600"], preexec_fn=os.setpgrp))
os.tcsetpgrp(1, other.pid)
report.append(columns_of(1))
other.kill()
other.wait()
os.tcsetpgrp(1, os.getpgrp())
print(report, file=sys.stderr)
"""


async def test_a_shell_that_has_put_us_into_the_background_keeps_its_terminal(window):
    with anyio.fail_after(DEADLINE_SECONDS):
        done = await anyio.run_process(
            [sys.executable, "-c", IN_THE_BACKGROUND],
            stdout=window.stdout,
            cwd=Path(__file__).parents[2],
        )
    assert done.stderr == b"[99, 0]\n"


def test_a_change_that_comes_before_the_drawing_needs_no_other_drawing(window):
    last = Footer(window.stdout)
    assert not last.change(WAIT, None)
    assert last.change(WAIT, lambda _: "one")
    assert not last.change(WAIT, lambda _: "two")
    assert last.drawing(at_line_start=True) == b"two\r"
    assert last.change(WAIT, None)
    assert last.drawing(at_line_start=True) == ERASE
    assert last.erasure() == b""


def test_in_the_middle_of_a_line_of_others_nothing_is_drawn(window):
    last = Footer(window.stdout)
    assert last.change(WAIT, lambda _: "words")
    assert last.drawing(at_line_start=False) == b""
    assert last.erasure() == b""
    assert last.change(WAIT, lambda _: "words")
    assert last.drawing(at_line_start=True) == b"words\r"


def bar(rank: int, columns: int) -> str:
    return f"[rank {rank}] 45%"[:columns]


def bars(*ranks: int) -> list[str]:
    return [bar(rank, 99) for rank in ranks]


async def test_several_lines_are_in_the_order_of_their_places(window):
    shown = Shown(window)
    for rank in (2, 0, 1):
        shown.console.keep((0, rank), partial(bar, rank))
    assert (await shown.after(WAITING))[:3] == bars(0, 1, 2)
    shown.console.put(Plain(b"a line\n"))
    lines = await shown.lines()
    assert lines[:4] == ["a line", *bars(0, 1, 2)]
    assert lines[4].startswith(WORDS)
    shown.console.keep((0, 1), None)
    shown.line.report(WaitEnded(9.0))
    assert await shown.lines() == ["a line", *bars(0, 2)]
    for rank in (0, 2):
        shown.console.keep((0, rank), None)
    assert await shown.lines() == ["a line"]


async def test_they_take_half_of_the_window_at_most(window):
    shown = Shown(window)
    for number in range(30):
        shown.console.put(Plain(b"line %d\n" % number))
    for rank in range(8):
        shown.console.keep((0, rank), partial(bar, rank))
    assert (await shown.lines())[30:] == bars(3, 4, 5, 6, 7)
    for rank in range(8):
        shown.console.keep((0, rank), None)
    assert await shown.lines() == [f"line {number}" for number in range(30)]
