"""The wall clock is set an hour forward or back under a job: no delay and no budget moves.

Nor is time counted in which the supervisor itself stood still, alone or with its ranks.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path

import pytest

from ascend_supervisor.files.writer_thread import STALL_SECONDS
from ascend_supervisor.output.console_thread import PIPE_BYTES
from ascend_supervisor.output.log_thread import BUFFER_BYTES
from tests.faults.test_signals import (
    OURS,
    SAVING,
    everybody_is_up,
    heard,
    make_room,
    pipe_for_log,
    rank_1_has_failed,
    the_rest,
    told_end,
)
from tests.faults.test_table import GOOD, NAME
from tests.running import Event, Running, python, wait_until

HOUR = 3600
MUCH = 600
"""Seconds that nothing in a test takes, and less than the clock is moved by."""
SECONDS = ("runtime_seconds", "duration_seconds", "waited_seconds", "delay_seconds")

pytestmark = [
    # It is one clock for all, whoever looks at it.
    pytest.mark.parametrize("way", ["ordinary"], indirect=True),
]
each_way_it_is_set = pytest.mark.parametrize("by", [HOUR, -HOUR], ids=["forward", "back"])


@dataclass(frozen=True, slots=True)
class WallClock:
    """The wall clock that a supervisor with this ``environ`` sees; the monotonic one is ours."""

    library: Path
    file: Path

    @property
    def environ(self) -> dict[str, str]:
        return {
            "LD_PRELOAD": str(self.library),
            "FAKETIME_TIMESTAMP_FILE": str(self.file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }

    def set(self, by: int) -> None:
        """So many seconds before (or, negative, behind) the real one."""
        new = self.file.with_suffix(".new")
        new.write_text(f"{by:+d}\n")
        new.replace(self.file)


@pytest.fixture
def wall_clock(place: Path) -> WallClock:
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    if not found:
        pytest.skip("libfaketime is missing (Debian's package libfaketime)")
    clock = WallClock(found[0], place / "wall-clock")
    clock.set(0)
    return clock


@pytest.fixture
def timed(bad_day, wall_clock: WallClock) -> Callable[..., Running]:
    """``timed(*arguments)`` starts a supervisor that looks at ``wall_clock``; its ranks do not."""

    def start(*arguments: str) -> Running:
        command = arguments.index("--") + 1
        really = ("env", "-u", "LD_PRELOAD")
        words = (*arguments[:command], *really, *arguments[command:])
        job: Running = bad_day(*words, environ=wall_clock.environ)
        return job

    return start


def was_set(by: int, before: Event, after: Event) -> None:
    """Between these two events, which would else be some seconds apart."""
    first, last = (datetime.fromisoformat(event["ts"].rstrip("Z")) for event in (before, after))
    assert abs((last - first).total_seconds() - by) < MUCH


def ended_untouched(job: Running, code: int) -> Event:
    """The end of a job in which every duration that is told is one of ours, not the clock's."""
    end = told_end(job, code)
    told = [event[key] for event in job.events for key in SECONDS if key in event]
    assert told
    assert [seconds for seconds in told if not 0 <= seconds < MUCH] == []
    return end


@pytest.fixture
def table(place: Path) -> Path:
    """One that is not completed."""
    path = place / "table.json"
    path.write_text('{"status": "initializing"}')
    return path


@each_way_it_is_set
def test_the_table_is_waited_for_as_long_as_was_said(timed, wall_clock, table, by):
    began = time.monotonic()
    job = timed("--rank-table", table.name, "--rank-table-timeout", "3", "--", "true")
    before = job.wait_for("rank_table.waiting")
    wall_clock.set(by)
    after = ended_untouched(job, 75)
    assert time.monotonic() - began >= 3
    was_set(by, before, after)


@each_way_it_is_set
def test_why_the_table_is_waited_for_is_told_all_the_same(timed, wall_clock, table, by):
    job = timed("--rank-table", table.name, "--", "true")
    before = job.wait_for("rank_table.waiting")
    wall_clock.set(by)
    table.write_text("")
    after = job.wait_for("rank_table.waiting", reason="the file is empty")
    was_set(by, before, after)
    job.send(signal.SIGTERM)
    ended_untouched(job, 143)


@each_way_it_is_set
def test_the_wait_before_a_restart_is_as_long_as_was_said(timed, wall_clock, by):
    job = timed(
        *("--restarts", "1", "--restart-delay", "1", "--release-delay", "0.6"),
        *("--standalone", "1", "--", "sh", "-c", FAILS_WHEN_TOLD, "1"),
    )
    job.wait_for("output", msg="up")
    began = time.monotonic()
    fail(job)
    before = job.wait_for("restart.scheduled")
    wall_clock.set(by)
    after = job.wait_for("generation.started", generation=1)
    assert time.monotonic() - began >= before["delay_seconds"] >= 0.6
    was_set(by, before, after)
    ended_untouched(job, 0)


FAILS_WHEN_TOLD = """
echo up
[ $TORCHELASTIC_RESTART_COUNT = $0 ] || exec sleep 600
"""


def fail(job: Running) -> None:
    """The ranks have no handler for what is forwarded to them."""
    job.send(signal.SIGUSR1)


@each_way_it_is_set
def test_the_grace_is_as_long_as_was_said(timed, wall_clock, by):
    job = timed("--grace", "0.6", *SAVING)
    everybody_is_up(job)
    began = time.monotonic()
    job.send(signal.SIGTERM)
    before = job.wait_for("output", rank=0, msg="asked")
    wall_clock.set(by)
    after = ended_untouched(job, 143)
    assert time.monotonic() - began >= 0.6
    was_set(by, before, after)
    assert {event["signal"] for event in job.all("process.exited")} == {"SIGKILL"}


def test_the_rest_of_a_drain_is_not_lost_to_a_clock_set_forward(timed, wall_clock):
    job = timed("--drain", str(MUCH), "--grace", "0", *SAVING)
    rank_1_has_failed(job)
    wall_clock.set(HOUR)
    job.send(signal.SIGTERM)
    job.wait_for("output", rank=0, msg="asked")
    make_room(job)
    ended_untouched(job, 143)
    assert job.wait_for("process.exited", rank=0)["status"] == 0


def test_the_rest_of_a_drain_is_not_prolonged_by_a_clock_set_back(timed, wall_clock):
    job = timed("--drain", "2", "--grace", "0", *SAVING)
    rank_1_has_failed(job)
    wall_clock.set(-HOUR)
    job.send(signal.SIGTERM)
    ended_untouched(job, 143)
    assert job.wait_for("process.exited", rank=0)["signal"] == "SIGKILL"


def test_a_clock_set_forward_does_not_refill_the_budget(timed, wall_clock):
    job = timed(
        *("--restarts", "2", "--restart-period", str(MUCH), "--restart-delay", "0"),
        *("--min-uptime", "0", "--standalone", "1", "--", "sh", "-c", FAILS_WHEN_TOLD, "never"),
    )
    starts = [job.wait_for("output", generation=0)]
    for generation in (1, 2):
        fail(job)
        starts.append(job.wait_for("output", generation=generation))
        wall_clock.set(generation * HOUR)
    fail(job)
    end = ended_untouched(job, 128 + signal.SIGUSR1)
    assert end["reason"].endswith(f"; the restart budget of 2 is used up within {MUCH} s")
    assert [event["restarts_left"] for event in job.all("generation.started")] == [2, 1, 0]
    was_set(2 * HOUR, starts[0], end)


def test_a_clock_set_back_does_not_keep_the_budget_from_being_refilled(timed, wall_clock):
    job = timed(
        *("--restarts", "1", "--restart-period", "0.3", "--restart-delay", "0"),
        *("--min-uptime", "0.3", "--standalone", "1"),
        *("--", "sh", "-c", "echo up; sleep 0.4; exit 3"),
    )
    first = job.wait_for("generation.started")
    for generation in range(3):
        job.wait_for("output", generation=generation)
        wall_clock.set(-HOUR * (generation + 1))
    last = job.wait_for("generation.started", generation=3)
    was_set(-3 * HOUR, first, last)
    job.send(signal.SIGTERM)
    ended_untouched(job, 143)


def test_a_clock_set_forward_makes_no_life_long(timed, wall_clock):
    job = timed(
        *("--restarts", "9", "--restart-delay", "0", "--min-uptime", str(MUCH)),
        *("--standalone", "1", "--", "sh", "-c", FAILS_WHEN_TOLD, "never"),
    )
    for generation in range(3):
        job.wait_for("output", generation=generation)
        wall_clock.set(HOUR * (generation + 1))
        fail(job)
    end = ended_untouched(job, 128 + signal.SIGUSR1)
    assert "3 generations in a row ended the same way" in end["reason"]


NEARLY_ALL = BUFFER_BYTES - (96 << 10)
"""Of what is kept for a disk that stands still; its 64 KiB that a pipe takes included."""
TOO_MUCH = (1 << 20) + (200 << 10)
"""More than a rank can write before some of it was taken from it."""
WRITES_ON = f"""
import os, time
def write(size):
    while size:
        size -= os.write(1, b"x" * size)
write({NEARLY_ALL})
open("up", "w").close()
while not os.path.exists("room"):
    time.sleep(0.01)
write({TOO_MUCH})
open("done", "w").close()
"""


def test_a_clock_set_forward_does_not_make_a_disk_one_that_stands_still(
    timed, wall_clock, place, way
):
    with pipe_for_log(place, way.uid) as log:
        job = timed("--standalone", "1", "--console-ranks", "none", *python(WRITES_ON))
        wait_until((place / "up").exists)
        wall_clock.set(HOUR)
        make_room(job)
        wait_until((place / "done").exists)
        said = OURS.sub(b"", the_rest(log))
    assert len(said) == NEARLY_ALL + TOO_MUCH
    ended_untouched(job, 0)
    assert not job.all("log.blocked")


BLOCK_BYTES = 64 * 1024
KEPT = (BUFFER_BYTES + PIPE_BYTES) // BLOCK_BYTES
"""Blocks: when so many are written, our buffer and the rank's own pipe are full."""
BLOCKS = 2 * KEPT
WRITES_BLOCKS = f"""
import os, signal
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
for _ in range({BLOCKS}):
    block = b"x" * {BLOCK_BYTES}
    while block:
        block = block[os.write(1, block):]
    with open("written", "a") as written:
        written.write(".")
"""


# As Ctrl-Z does it, a frozen cgroup, or docker pause.
def test_a_supervisor_that_stood_still_does_not_take_the_disk_for_one_that_does(
    bad_day, place, way
):
    with pipe_for_log(place, way.uid) as log:
        job = bad_day("--standalone", "1", "--console-ranks", "none", *python(WRITES_BLOCKS))
        written = place / "written"
        wait_until(lambda: written.exists() and written.stat().st_size >= KEPT)
        job.send(signal.SIGSTOP)
        time.sleep(STALL_SECONDS + 1)
        job.send(signal.SIGCONT)
        for times in (1, 2):  # it has looked at its clock when it hears this
            job.send(signal.SIGUSR1)
            heard(job, times)
        said = OURS.sub(b"", the_rest(log))
    assert len(said) == BLOCKS * BLOCK_BYTES
    told_end(job, 0)
    assert not job.all("log.blocked")


WAITED = 6
"""Seconds that a deadline leaves: more than a loaded machine needs for what has to be done."""
STOOD = WAITED + 1
WRITES_A_CHECKPOINT = """
import os, signal, time
signal.signal(signal.SIGTERM, lambda *_: os.write(1, b"asked\\n"))
os.write(1, b"up\\n")
while not os.path.exists("../../../room"):
    time.sleep(0.01)
open("checkpoint", "w").close()
"""
CHECKPOINTS = ("--standalone", "2", "--rank-dir", "device", *python(WRITES_A_CHECKPOINT))


def stand_still(job: Running) -> None:
    """Stop all for STOOD seconds. Then it is we who have to go on first: the ranks have no time."""
    ranks = [pid for pid in job.pids() if pid != job.pid]
    for pid in (job.pid, *ranks):
        os.kill(pid, signal.SIGSTOP)
    time.sleep(STOOD)
    job.send(signal.SIGCONT)
    for times in (1, 2):  # it has looked at its clock when it hears this
        job.send(signal.SIGHUP)
        list(islice(job.each("signal.received", signal="SIGHUP"), times))
    for pid in ranks:
        os.kill(pid, signal.SIGCONT)


def has_saved(job: Running) -> None:
    make_room(job)
    saved = job.wait_for("process.exited", rank=0)
    assert (saved["status"], saved["signal"]) == (0, None)
    assert saved["runtime_seconds"] > STOOD


def test_a_grace_in_which_all_stood_still_is_no_shorter_for_it(bad_day):
    job = bad_day("--grace", str(WAITED), *CHECKPOINTS)
    everybody_is_up(job)
    job.send(signal.SIGTERM)
    job.wait_for("output", rank=0, msg="asked")
    stand_still(job)
    has_saved(job)
    told_end(job, 143)


def test_a_grace_that_begins_while_all_stand_still_is_no_shorter_for_it(bad_day):
    # Until then the ranks just ran, and the supervisor looked at its clock once a second.
    job = bad_day("--grace", str(WAITED), *CHECKPOINTS)
    everybody_is_up(job)
    ranks = [pid for pid in job.pids() if pid != job.pid]
    for pid in (job.pid, *ranks):
        os.kill(pid, signal.SIGSTOP)
    job.send(signal.SIGTERM)
    time.sleep(STOOD)
    job.send(signal.SIGCONT)
    job.wait_for("output", rank=0, msg="asked")  # SIGTERM also continues the ranks
    has_saved(job)
    told_end(job, 143)


def test_a_drain_in_which_all_stood_still_is_no_shorter_for_it(bad_day):
    job = bad_day("--drain", str(WAITED), "--grace", "0", *CHECKPOINTS)
    rank_1_has_failed(job)
    stand_still(job)
    has_saved(job)
    told_end(job, 137)
    assert not job.all("output", rank=0, msg="asked")


def test_a_table_is_waited_for_no_shorter_for_the_time_in_which_we_stood_still(bad_day, place):
    job = bad_day("--rank-table", NAME, "--rank-table-timeout", str(WAITED), "--", "true")
    job.wait_for("rank_table.waiting")
    stand_still(job)
    (place / NAME).write_bytes(GOOD)
    told_end(job, 0)


ENDS_LATE = f"""
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.write(1, b"up\\n")
time.sleep({4 * WAITED})
"""


def test_a_grace_is_over_in_time_where_nothing_stood_still(bad_day):
    job = bad_day("--grace", str(WAITED), "--standalone", "1", *python(ENDS_LATE))
    job.wait_for("output", msg="up")
    job.send(signal.SIGTERM)
    told_end(job, 143)
    assert job.wait_for("process.exited")["signal"] == "SIGKILL"
