"""What whoever reads our stdout does on a bad day: reads slowly, not at all, or is a full disk."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from tests.faults.facilities import small_disk
from tests.faults.test_signals import state_file, state_of
from tests.running import (
    DEADLINE_SECONDS,
    Event,
    begins_in_python,
    python,
    wait_until,
    with_constants,
)

ORDINARY = pytest.mark.parametrize("way", ["ordinary"], indirect=True)
"""What a reader does is the same to us in all ways."""
BOTH_ON_STDOUT = ("sh", "-c", 'exec "$@" 2>&1', "sh")


class SlowReader:
    """Takes ``rate`` bytes a second for as long as the supervisor runs, then the rest.

    Where the machine is busy and it comes late, it takes more: else it would be slower still, and
    5 s without a page of the pipe are a reader that has stopped.
    """

    def __init__(self, rate: int) -> None:
        self._read_end, self.write_end = os.pipe()
        self._rate = rate
        self._over = threading.Event()
        self._data = bytearray()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def begin(self) -> None:
        """To be called when the supervisor has the write end."""
        os.close(self.write_end)
        self._thread.start()

    def everything(self) -> bytes:
        """When the supervisor has ended."""
        self._over.set()
        self._thread.join(DEADLINE_SECONDS)
        assert not self._thread.is_alive()
        return bytes(self._data)

    def _read(self) -> None:
        with os.fdopen(self._read_end, "rb", buffering=0) as pipe:
            piece, at = b"begun", time.monotonic()
            while piece:
                self._over.wait(0.05)
                late = time.monotonic() - at
                at += late
                piece = pipe.read(
                    1 << 20 if self._over.is_set() else max(int(late * self._rate), 1)
                )
                self._data += piece


LINES = 300_000
FLOODED = 3_000_000
TALK = f"""
import sys
for number in range({LINES}):
    sys.stdout.write("%d of rank: a line that is long enough to fill what waits\\n" % number)
"""


def assert_all_is_told(data: bytes) -> list[Event]:
    """Whole events, numbered without a gap, the last one at the end; every line is counted."""
    events: list[Event] = [json.loads(line) for line in data.splitlines()]
    assert [event["seq"] for event in events] == list(range(len(events)))
    assert events[-1]["event"] == "supervisor.exited"
    shown = sum(event["event"] == "output" for event in events)
    dropped = sum(event["lines"] for event in events if event["event"] == "output.dropped")
    assert dropped > 0
    assert shown + dropped == LINES
    return events


@ORDINARY
@pytest.mark.parametrize("rate", [5_000, 200_000, 1_000_000])
def test_a_slow_reader_gets_every_event_and_holds_nobody(bad_day, rate):
    reader = SlowReader(rate)
    job = bad_day("--standalone", "1", *python(TALK), stdout=reader.write_end, deadline=60)
    reader.begin()
    assert job.end() == 0
    names = [event["event"] for event in assert_all_is_told(reader.everything())]
    for name in ("supervisor.started", "process.started", "process.exited", "generation.ended"):
        assert names.count(name) == 1


@ORDINARY
def test_who_has_no_patience_does_not_wait_for_a_slow_reader(bad_day):
    """It would take minutes to read what waits, and an hour would be left for it."""
    reader = SlowReader(50_000)
    patient = with_constants(program_run__LAST_WORDS_SECONDS=3600.0)
    job = bad_day("--standalone", "1", *python(TALK), stdout=reader.write_end, program=patient)
    reader.begin()
    wait_until(lambda: state_file(job).exists() and state_of(job)["phase"] == "ended")
    end = time.monotonic() + DEADLINE_SECONDS
    while job.process.poll() is None:
        assert time.monotonic() < end
        job.send(signal.SIGQUIT)
        time.sleep(0.2)
    assert job.end() == 0
    assert_all_is_told(reader.everything())


# It refuses.

TALK_AND_FAIL = "print('on its way', flush=True); raise SystemExit(3)"
THE_CAUSE = "rank 0 failed first, in generation 0: it exited with status 3"


@ORDINARY
@pytest.mark.parametrize("form", ["json", "text"])
def test_with_a_full_disk_as_stdout_a_failure_is_told_on_stderr(bad_day, form):
    with Path("/dev/full").open("wb") as full:
        options = ("--standalone", "1", "--console", form)
        job = bad_day(*options, *python(TALK_AND_FAIL), stdout=full.fileno())
        assert job.end() == 3
    said = job.stderr.splitlines()
    assert said[0].startswith(
        "ascend_supervisor: stdout cannot be written: No space left on device"
    )
    assert said[1].startswith(f"ascend_supervisor: {THE_CAUSE}")
    assert job.stderr.count("cannot be written") == 1


@ORDINARY
def test_a_limit_of_file_sizes_silences_no_failure(bad_day, place):
    limited = ("sh", "-c", 'ulimit -f 1; exec "$@"', "sh")
    with (place / "events").open("wb") as file:
        job = bad_day(
            "--standalone", "1", *python(TALK_AND_FAIL), before=limited, stdout=file.fileno()
        )
        assert job.end() == 3
    assert "stdout cannot be written: File too large" in job.stderr
    assert THE_CAUSE in job.stderr


@ORDINARY
@pytest.mark.parametrize("form", ["json", "text"])
def test_when_nobody_reads_any_more_a_failure_is_told_on_stderr(bad_day, form):
    read_end, write_end = os.pipe()
    os.close(read_end)
    options = ("--standalone", "1", "--console", form)
    job = bad_day(*options, *python(TALK_AND_FAIL), stdout=write_end)
    os.close(write_end)
    assert job.end() == 3
    assert job.stderr.startswith(f"ascend_supervisor: {THE_CAUSE}")


STAYS = """
import os, sys, time
print("here", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
"""


@ORDINARY
def test_a_disk_that_has_room_again_gets_every_event(bad_day, place, way):
    enough = place / "enough"
    with small_disk(place / "small", way.uid, "1m") as disk:
        with (disk / "events").open("wb") as file, (disk / "filler").open("wb") as filler:
            os.posix_fallocate(filler.fileno(), 0, 1 << 20)
            job = bad_day("--standalone", "1", *python(STAYS), str(enough), stdout=file.fileno())
            wait_until(lambda: job.log(0).exists() and b"here" in job.log(0).read_bytes())
            assert (disk / "events").stat().st_size == 0
            (disk / "filler").unlink()
            filler.truncate(0)
            enough.touch()
            assert job.end() == 0
        events = [json.loads(line) for line in (disk / "events").read_bytes().splitlines()]
    assert [event["seq"] for event in events] == list(range(len(events)))
    names = [event["event"] for event in events]
    assert names[0] == "supervisor.started"
    assert names[-1] == "supervisor.exited"
    assert "output" in names
    assert job.stderr.count("stdout cannot be written: No space left on device") == 1


# It is as fast as can be.

FLOOD = """
import os
block = b"loss 0.5\\n" * 8000
for _ in range(MANY):
    view = memoryview(block)
    while view:
        view = view[os.write(1, view):]
""".replace("MANY", str(FLOODED // 8000))


@ORDINARY
@pytest.mark.parametrize("form", ["json", "text", "raw"])
def test_a_reader_that_keeps_up_gets_every_line(bad_day, form):
    read_end, write_end = os.pipe()
    counts = Counter[str]()
    reader = threading.Thread(target=count_lines, args=(read_end, counts), daemon=True)
    options = ("--standalone", "1", "--console", form)
    job = bad_day(*options, *python(FLOOD), stdout=write_end, deadline=60)
    os.close(write_end)
    reader.start()
    assert job.end() == 0
    reader.join(DEADLINE_SECONDS)
    assert counts["said"] == FLOODED
    assert counts["dropped"] == 0


def count_lines(read_end: int, counts: Counter[str]) -> None:
    """Before all others, if we may: a reader that gets no CPU does not keep up."""
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), -19)
    rest = b""
    with os.fdopen(read_end, "rb", buffering=0) as stdout:
        while piece := stdout.read(1 << 20):
            lines, newline, rest = (rest + piece).rpartition(b"\n")
            counts["said"] += (lines + newline).count(b"loss 0.5\n")
            counts["said"] += (lines + newline).count(b'"loss 0.5"}\n')
            counts["dropped"] += lines.count(b"of rank 0 were not copied to stdout")


# stdout and stderr are one.

FLOODS_AND_VANISHES = """
import os, sys
for number in range(50_000):
    print("%d of rank: a line that is long enough to fill what waits" % number)
os.unlink(sys.argv[0])
raise SystemExit(1)
"""


@ORDINARY
def test_on_one_slow_pipe_a_refusal_is_told_by_the_last_event_alone(bad_day, place):
    program = place / "program"
    program.write_text(f"{begins_in_python()}\n{FLOODS_AND_VANISHES}")
    program.chmod(0o755)
    reader = SlowReader(1_000_000)
    options = ("--standalone", "1", "--restarts", "1", "--restart-delay", "0")
    words = (*options, "--", str(program))
    job = bad_day(*words, before=BOTH_ON_STDOUT, stdout=reader.write_end, deadline=60)
    reader.begin()
    assert job.end() == 127
    events = [json.loads(line) for line in reader.everything().splitlines()]
    assert events[-1]["root_cause"].startswith("rank 0: ")
    assert [event["seq"] for event in events] == list(range(len(events)))
    assert events[-1]["event"] == "supervisor.exited"
