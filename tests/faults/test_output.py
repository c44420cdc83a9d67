"""What the ranks say on a bad day: to nobody, very much, in very long lines, into moving files."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.faults.facilities import program
from tests.running import Event, python, wait_until

OURS = re.compile(rb"\[ascend_supervisor\] [^\n]*\n")


def said(*logs: Path) -> bytes:
    """What the rank wrote, without the lines of ours that begin a file or a generation."""
    return b"".join(OURS.sub(b"", log.read_bytes()) for log in logs)


# Nobody reads our stdout.

LINES = 300_000
TALK = f"""
import sys
for number in range({LINES}):
    sys.stdout.write("%d of rank: a line that is long enough to fill what waits\\n" % number)
"""


def test_a_stdout_that_nobody_reads_costs_lines_and_no_event(bad_day, place):
    read_end, write_end = os.pipe()
    job = bad_day("--standalone", "2", *python(TALK), stdout=write_end)
    os.close(write_end)
    logs = [job.log(rank) for rank in range(2)]
    last = f"{LINES - 1} of rank".encode()
    while not all(log.exists() and last in log.read_bytes()[-4096:] for log in logs):
        assert job.process.poll() is None
    events = everything(read_end)
    assert job.end() == 0
    assert [event["seq"] for event in events] == list(range(len(events)))
    for rank in range(2):
        mine = [event for event in events if event.get("rank") == rank]
        # The line in the midst of which dropping began is one of those that are dropped.
        mirrored = [e for e in mine if e["event"] == "output" and not e.get("partial")]
        dropped = sum(event["lines"] for event in mine if event["event"] == "output.dropped")
        assert dropped > 0
        assert len(mirrored) + dropped == LINES
        assert said(logs[rank]).splitlines() == [
            b"%d of rank: a line that is long enough to fill what waits" % number
            for number in range(LINES)
        ]
    told = Counter(event["event"] for event in events)
    for name, times in {"process.started": 2, "process.exited": 2, "supervisor.exited": 1}.items():
        assert told[name] == times


def everything(read_end: int) -> list[Event]:
    with os.fdopen(read_end, "rb") as stdout:
        return [json.loads(line) for line in stdout]


# Much.

MOST, LITTLE = 4_400_000_000, 100_000_000
"""Bytes of rank 0, which 32 bits cannot count, and of each other one."""
RANKS = 8
TOTAL = MOST + (RANKS - 1) * LITTLE
MUCH = f"""
import hashlib, os, sys
from pathlib import Path
rank = int(os.environ["RANK"])
digest, left, number = hashlib.sha256(), {LITTLE} if rank else {MOST}, 0
line = hashlib.sha512(b"%d" % rank).hexdigest().encode() * 100
while left:
    block = b"%d %d " % (rank, number) + line + b"\\n"
    block = block[:left]
    number += 1
    left -= len(block)
    digest.update(block)
    view = memoryview(block)
    while view:
        view = view[os.write(1, view):]
Path(sys.argv[1], "digest.%d" % rank).write_text(digest.hexdigest())
"""


@pytest.mark.endurance
@pytest.mark.timeout(600)
# Bytes and memory are the same in all ways; 5 GB take long enough once.
@pytest.mark.parametrize("way", ["ordinary"], indirect=True)
def test_gigabytes_arrive_as_they_were_written(bad_day, place):
    if shutil.disk_usage(place).free < 1.5 * TOTAL:
        pytest.skip(f"less than {1.5 * TOTAL / 1e9:g} GB are free in {place}")
    read_end, write_end = os.pipe()
    # Only the others are mirrored: that took half of the time, and says no more with 4 GB more.
    options = ("--standalone", str(RANKS), "--log-max-size", "100GiB")
    mirrored = ("--console-ranks", f"1-{RANKS - 1}")
    job = bad_day(*options, *mirrored, *python(MUCH), str(place), stdout=write_end, deadline=500)
    os.close(write_end)
    most = [0]
    reader = threading.Thread(target=throw_away, args=(read_end,), daemon=True)
    logs = [job.log(rank) for rank in range(RANKS)]
    while not all(log.exists() and log.stat().st_size > 1 << 20 for log in logs):
        assert job.process.poll() is None
    began = job.memory
    reader.start()
    while job.process.poll() is None:
        try:
            most.append(job.memory)
        except (OSError, StopIteration):  # it has just ended
            break
        reader.join(0.05)
    assert job.end() == 0
    with ThreadPoolExecutor(2) as pool:
        digests = list(pool.map(digest_of, logs))
    assert digests == [(place / f"digest.{rank}").read_text() for rank in range(RANKS)]
    grown = (max(most) - began) / 1e6
    assert grown < 20, f"the supervisor has grown by {grown:.1f} MB"


def throw_away(read_end: int) -> None:
    with os.fdopen(read_end, "rb", buffering=0) as stdout:
        while stdout.read(1 << 20):
            pass


def digest_of(log: Path) -> str:
    digest = hashlib.sha256()
    with log.open("rb") as file:
        head = b"".join(file.readline() for _ in range(2))
        assert len(OURS.findall(head)) == 2
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


# Lines of all kinds.

KINDS = r"""
import os, sys
every = bytes(set(range(256)) - {10})
pieces = [
    b"\n", b"\n\n", b"x" * 200_000 + b"\n", b"1\r2\r3\r\n", b"\r\r", b"\n", b"a\0b\n",
    every + b"\n", "训练\n".encode(), b"\xff\xfe\n",
]
if os.environ["RANK"] == "1":
    pieces = [b"y" * 10_000_000 + b"\n"]
for piece in pieces:
    view = memoryview(piece)
    while view:
        view = view[os.write(1, view):]
for byte in "é训😀\n".encode():
    os.write(1, bytes([byte]))
os.write(1, b"no newline at the end")
with open(sys.argv[1] + os.environ["RANK"], "wb") as file:
    file.write(b"".join(pieces) + "é训😀\n".encode() + b"no newline at the end")
"""


def test_lines_of_all_kinds_are_in_the_log_byte_for_byte_and_whole_on_the_console(bad_day, place):
    """Ten megabytes are more than what waits for the console: that rank is only in its log."""
    options = ("--standalone", "2", "--console-ranks", "0")
    job = bad_day(*options, *python(KINDS), str(place / "words"))
    assert job.end() == 0
    for rank in range(2):
        written = (place / f"words{rank}").read_bytes()
        assert said(job.log(rank)).removesuffix(b"\n") == written
    written = (place / "words0").read_bytes()
    output = job.all("output", rank=0)
    assert not job.all("output.dropped")
    # Pieces of one line are joined by the mark that all but the last have.
    lines, line = [], ""
    for event in output:
        line += event["msg"]
        if not event.get("partial"):
            lines.append(line)
            line = ""
    assert output[-1]["partial"]  # it had no newline
    assert [*lines, line] == [
        shown.decode(errors="backslashreplace").replace("\0", "")
        for shown in written.removesuffix(b"\n").split(b"\n")
    ]


# Rotation under load.

NUMBERED = """
import os, sys
rank = os.environ["RANK"]
pad = "x" * 60
number = 0
while not os.path.exists(sys.argv[1]) if sys.argv[1:] else number < 200_000:
    for number in range(number, number + 1000):
        sys.stdout.write(f"{rank} {number} {pad[number % 60:]}\\n")
    number += 1
print("end of", number, flush=True)
"""
"""Writes until there is the file that it is told of; without one, some megabytes."""


def assert_all_lines(rank: int, logs: Iterable[Path]) -> None:
    lines = said(*logs).decode().splitlines()
    count = int(lines[-1].removeprefix("end of "))
    assert lines[:-1] == [f"{rank} {number} {'x' * (60 - number % 60)}" for number in range(count)]


def test_rotation_under_load_loses_and_cuts_no_line(bad_day):
    options = ("--standalone", "4", "--log-max-size", "64KiB", "--log-keep", "1000")
    job = bad_day(*options, "--console-ranks", "none", *python(NUMBERED))
    assert job.end() == 0
    for rank in range(4):
        files = rotated(job.log(rank))
        assert len(files) > 3
        assert all(file.read_bytes().endswith(b"\n") for file in files)
        assert_all_lines(rank, files)


def test_of_rotated_files_so_many_are_kept_and_no_more(bad_day):
    options = ("--standalone", "1", "--log-max-size", "64KiB", "--log-keep", "3")
    job = bad_day(*options, "--console-ranks", "none", *python(NUMBERED))
    assert job.end() == 0
    files = rotated(job.log(0))
    assert len(files) == 4
    # A pump takes at most 1 MiB at once, and that is not divided.
    assert all(file.stat().st_size < 2 << 20 for file in files)
    kept = [line.split()[1] for line in said(*files).decode().splitlines()[:-1]]
    assert kept == [str(number) for number in range(int(kept[0]), 200_000)]


def rotated(log: Path) -> list[Path]:
    """The files of a log, the oldest first."""
    older = log.parent.glob(f"{log.name}.*")
    return [
        *sorted(older, key=lambda path: -int(path.suffix[1:])),
        *([log] if log.exists() else []),
    ]


RENAMED_TIMES = 30


def test_files_that_are_renamed_under_load_lose_and_cut_no_line(bad_day, place):
    """Whoever renames them sends SIGHUP then, as logrotate's postrotate does."""
    enough = place / "enough"
    options = ("--standalone", "2", "--console-ranks", "none")
    job = bad_day(*options, *python(NUMBERED), str(enough))
    moved: list[list[Path]] = [[], []]
    for rank in range(2):
        job.wait_for("process.started", rank=rank)
    for time in range(RENAMED_TIMES):
        for rank, files in enumerate(moved):
            new = place / f"moved.{rank}.{time}"
            wait_until(job.log(rank).exists)
            job.log(rank).rename(new)
            files.append(new)
        job.send(signal.SIGHUP)
    enough.touch()
    assert job.end() == 0
    for rank, files in enumerate(moved):
        here = [job.log(rank)] if job.log(rank).exists() else []
        assert all(OURS.sub(b"", file.read_bytes())[-1:] in (b"", b"\n") for file in files)
        assert_all_lines(rank, [*files, *here])


def test_logrotate_loses_and_cuts_no_line(bad_day, place, way):
    logrotate = program("logrotate", "logrotate")
    enough = place / "enough"
    options = ("--standalone", "1", "--console-ranks", "none")
    job = bad_day(*options, *python(NUMBERED), str(enough))
    job.wait_for("process.started")
    configuration = place / "logrotate.conf"
    configuration.write_text(
        f"{job.log(0)} {{\n rotate 1000\n size 1\n nocreate\n nocompress\n su root root\n"
        f" postrotate\n  kill -HUP {job.pid}\n endscript\n}}\n"
    )
    words = [logrotate, "--force", "--state", str(place / "state"), str(configuration)]
    for _ in range(5):
        wait_until(job.log(0).exists)
        subprocess.run(words, check=True, capture_output=True, text=True, timeout=30)
    enough.touch()
    assert job.end() == 0
    files = rotated(job.log(0))
    assert len(files) > 5
    assert_all_lines(0, files)


# Streams that are closed.

STREAMS = """
import os, sys
from pathlib import Path
ours = Path("/proc", str(os.getppid()), "fd")
Path(sys.argv[1]).write_text(" ".join(os.readlink(ours / number) for number in "012"))
raise SystemExit(int(sys.argv[2]))
"""


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
@pytest.mark.parametrize("code", [0, 3])
def test_a_stream_that_is_closed_at_the_start_changes_no_exit_code(bad_day, place, closed, code):
    close = " ".join(f"{number}>&-" for number in closed)
    closing = ("sh", "-c", f'exec "$@" {close}', "sh")
    seen = place / "streams"
    job = bad_day("--standalone", "1", *python(STREAMS), str(seen), str(code), before=closing)
    assert job.end() == code
    streams = seen.read_text().split()
    assert {streams[number] for number in closed} == {"/dev/null"}
    assert ("rank 0 failed first" in job.stderr) == (code != 0 and 1 in closed and 2 not in closed)


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_with_a_stream_closed_a_refusal_has_its_exit_code(bad_day, closed):
    close = " ".join(f"{number}>&-" for number in closed)
    job = bad_day("--no-such-option", before=("sh", "-c", f'exec "$@" {close}', "sh"))
    assert job.end() == 64
    assert ("--no-such-option" in job.stderr) == (2 not in closed)
