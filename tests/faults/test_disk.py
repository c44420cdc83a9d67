"""Disks that are full, gone, read-only or frozen: no rank is stopped, no byte is lost uncounted."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from ascend_supervisor.files.writer_thread import STALL_SECONDS
from ascend_supervisor.output.console_thread import PIPE_BYTES
from ascend_supervisor.output.log_thread import BUFFER_BYTES
from ascend_supervisor.output.mirror import CHUNK_BYTES
from tests.control.asking import ask
from tests.ctl.calling import ctl
from tests.faults.facilities import Hanging, failing_disk, hanging, small_disk
from tests.faults.ways import Way
from tests.running import Running, python, wait_until

JOB = "modelarts-job-test"
STATE = f"{JOB}-supervisor-job-test-0.json"
CANNOT_WRITE, STOPPED = 73, 128 + signal.SIGTERM

LINE = b"%015d\n"
LINE_BYTES = 16
BLOCK_BYTES = 64 * 1024
ROTATED = ("--log-max-size", str(BLOCK_BYTES), "--log-keep", "999")
"""As soon as a block has been written."""
MUCH = (BUFFER_BYTES + PIPE_BYTES) // BLOCK_BYTES + 16
"""Blocks that are more than what is kept for a disk that does not write."""

SPEAKER = f"""
import os, signal, sys, time
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
home, stories = sys.argv[1], sys.argv[2:]
rank = int(os.environ["RANK"])
line, longest = 0, 0.0


def say(blocks):
    global line, longest
    for _ in range(int(blocks)):
        lines = range(line, line + {BLOCK_BYTES // LINE_BYTES})
        words, line = b"".join(map(b"%015d\\n".__mod__, lines)), lines.stop
        while words:
            began = time.monotonic()
            words = words[os.write(1, words):]
            longest = max(longest, time.monotonic() - began)


def note(name):
    with open(f"{{home}}/{{name}}.{{rank}}", "w") as file:
        file.write(str(longest))
    os.rename(f"{{home}}/{{name}}.{{rank}}", f"{{home}}/{{name}}-{{rank}}")


def ignore(name):
    signal.signal(signal.Signals[name], signal.SIG_IGN)


def wait(name):
    while not os.path.exists(f"{{home}}/{{name}}"):
        time.sleep(0.01)


def end(status):
    os._exit(int(status))


for step in stories[rank].split(", "):
    verb, _, what = step.partition(" ")
    globals()[verb](what)
"""
"""A rank that does what its story says: it says numbered lines, notes how far it is, and waits.

A note holds how many seconds the longest of its writes has taken.
"""


class Tale:
    """A job whose ranks follow ``stories``; its files are below ``home``.

    Its logs are in ``logs``, or else where the platform puts them below ``mount``.
    """

    def __init__(
        self,
        start: Callable[..., Running],
        way: Way,
        home: Path,
        stories: tuple[str, ...],
        *options: str,
        logs: Path | None = None,
        mount: str = "",
    ) -> None:
        home.mkdir(exist_ok=True)
        os.chown(home, way.uid, -1)
        self.home, self.logs = home, logs or Path(mount or home, "log")
        if logs or not mount:
            options = ("--log-dir", str(self.logs), *options)
        self.ranks = len(stories)
        self.job = start(
            *("--standalone", str(self.ranks), "--console-ranks", "none"),
            *("--work-dir", str(home / "work"), *options, *python(SPEAKER), str(home), *stories),
            environ={"MA_MOUNT_PATH": mount},
        )

    def note(self, name: str, rank: int = 0) -> float:
        """Wait for it; gives the seconds that it holds."""
        path = self.home / f"{name}-{rank}"
        wait_until(path.exists)
        return float(path.read_text())

    def let(self, name: str) -> None:
        (self.home / name).touch()

    def log(self, rank: int = 0) -> Path:
        return self.logs / f"{JOB}-proc-rank-{rank}-device-{rank}.txt"

    def written(self, rank: int = 0, blocks: int = 1) -> None:
        """Wait until so much is in its log."""
        wait_until(lambda: self.log(rank).stat().st_size > blocks * BLOCK_BYTES)

    def whole_log(self, rank: int = 0) -> bytes:
        """In its order; asserts that no file begins with somebody else's words."""
        log = self.log(rank)
        older = sorted(self.logs.glob(f"{log.name}.*"), key=lambda path: -int(path.suffix[1:]))
        files = [path.read_bytes() for path in (*older, log)]
        assert all(OURS.match(file) for file in files)
        return b"".join(files)

    def lost(self, rank: int = 0) -> int:
        return sum(event["bytes"] for event in self.job.all("log.lost", rank=rank))

    def is_known(self) -> None:
        """Wait until its state file tells of every rank."""
        file = self.logs / STATE
        wait_until(lambda: file.exists() and len(self.state()["ranks"]) == self.ranks)

    def state(self) -> Any:
        return json.loads((self.logs / STATE).read_text())


OURS = re.compile(rb"^(\[ascend_supervisor\] [^\n]*\n)", re.MULTILINE)
MISSING = re.compile(rb"\[ascend_supervisor\] \S+ (\d+) bytes are missing here: ")


def accounted(log: bytes, begin: int = 0) -> tuple[int, int]:
    """Where what a rank has said ends, from ``begin`` on, and how much of it the log says it lacks.

    Asserts that every other byte is there, in its place.
    """
    at, missing = begin, 0
    for piece in OURS.split(log):
        if gap := MISSING.match(piece):
            at += int(gap.group(1))
            missing += int(gap.group(1))
        elif not OURS.match(piece):
            words = said(at, len(piece))
            if piece != words and piece.endswith(b"\n"):  # that is ours: our lines are whole lines
                words = words[:-1]
            assert piece.startswith(words), f"other words from byte {at} on"
            at += len(words)
    return at, missing


def said(begin: int, size: int) -> bytes:
    """So many bytes of what a rank says."""
    first = begin // LINE_BYTES
    lines = range(first, (begin + size) // LINE_BYTES + 1)
    return b"".join(map(LINE.__mod__, lines))[begin - first * LINE_BYTES :][:size]


def fill(disk: Path) -> Path:
    """A file that takes all the room there is."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
    return ballast


# A full disk.


def test_on_a_full_disk_no_rank_is_stopped_and_every_byte_is_there_or_counted(bad_day, way, place):
    story = f"say 1, note begun, wait full, say {MUCH}, note said"
    goes_on, ends = f"{story}, wait room, say 1", f"{story}, end 0"
    with (
        small_disk(place / "disk", way.uid) as disk,
        small_disk(place / "other", way.uid) as other,
    ):
        meanwhile = Tale(
            bad_day,
            way,
            place / "one",
            (goes_on, goes_on, "note begun, wait full"),
            *ROTATED,
            logs=disk / "a",
        )
        at_the_end = Tale(bad_day, way, place / "two", (ends,), logs=other / "a")
        for rank in range(3):
            meanwhile.note("begun", rank)
        for tale in (meanwhile, at_the_end):
            tale.note("begun")
            tale.written()
            tale.is_known()
        ballast, _ = fill(disk), fill(other)
        for tale in (meanwhile, at_the_end):
            tale.let("full")

        for rank in range(2):
            meanwhile.note("said", rank)
            told = meanwhile.job.wait_for("log.blocked", rank=rank)
            assert told["reason"] == "No space left on device"
        meanwhile.job.wait_for("diagnostic", source="the state file")
        assert meanwhile.state()["phase"] == "running"
        assert [event["rank"] for event in meanwhile.job.all("process.exited")] == [2]
        ballast.unlink()
        for rank in range(2):
            meanwhile.job.wait_for("log.lost", rank=rank)
        meanwhile.let("room")
        assert meanwhile.job.end() == 0
        for rank in range(2):
            end, missing = accounted(meanwhile.whole_log(rank))
            assert end == (MUCH + 2) * BLOCK_BYTES
            assert missing == meanwhile.lost(rank) > 0
        assert meanwhile.state()["phase"] == "ended"
        json.loads((disk / "a" / JOB / "rank_table" / "jobstart_hccl.json").read_text())
        assert not list(disk.rglob(".*"))

        assert at_the_end.job.end() == 0
        assert f"{STATE} cannot be written: No space left on device" in at_the_end.job.stderr
        there, missing = accounted(at_the_end.log().read_bytes())
        assert missing == 0
        assert there + at_the_end.lost() == (MUCH + 1) * BLOCK_BYTES


def test_on_a_full_disk_a_job_is_restarted_and_its_end_is_in_status_and_report(bad_day, way, place):
    with small_disk(place / "disk", way.uid) as disk:
        story = "note begun, wait full, end 1"
        tale = Tale(bad_day, way, place / "one", (story,), "--restarts", "1", logs=disk / "a")
        tale.note("begun")
        tale.written(blocks=0)
        fill(disk)
        tale.let("full")
        assert tale.job.end() == 1, tale.job.stderr
        assert len(tale.job.all("process.started")) == 2
        where = ("--state-file", str(tale.logs / STATE))
        told = ctl("status", *where)
        assert (tale.state()["phase"], tale.state()["exit_code"], told.stderr) == ("ended", 1, "")
        assert " failed first, in generation 1\n" in ctl("report", "--text", *where).stdout
        assert not list(tale.logs.glob(f".{STATE}.*"))


def test_of_a_supervisor_that_was_killed_status_says_that_the_disk_is_full(bad_day, way, place):
    with small_disk(place / "disk", way.uid) as disk:
        tale = Tale(bad_day, way, place / "one", ("note begun, wait never",), logs=disk / "a")
        tale.note("begun")
        tale.is_known()
        fill(disk)
        tale.job.kill()
        tale.job.end()
        told = ctl("status", "--state-file", str(tale.logs / STATE))
        assert f"; the disk of {tale.logs} is full: if it has ended in order, " in told.stderr


# A log directory that is no more.


def test_a_log_directory_that_is_removed_is_made_again_when_that_is_possible(bad_day, way, place):
    story = f"say 1, note begun, wait removed, say {MUCH}, note said, wait room, say 1"
    state = ("--state-file", str(place / "state.json"))  # which nobody removes
    tale = Tale(bad_day, way, place / "one", (story,), *state)
    tale.note("begun")
    tale.written()
    at_once = Tale(bad_day, way, place / "two", ("say 1, note begun, wait removed, say 1",))
    at_once.note("begun")
    at_once.written()
    remove(at_once.logs)
    at_once.let("removed")
    assert at_once.job.end() == 0
    end, missing = accounted(at_once.log().read_bytes(), BLOCK_BYTES)
    assert (end, missing) == (2 * BLOCK_BYTES, 0)
    assert at_once.state()["phase"] == "ended"

    remove(tale.logs)
    tale.logs.touch()  # and something else has its name
    tale.let("removed")
    tale.note("said")
    tale.job.wait_for("log.blocked", rank=0)
    tale.logs.unlink()
    tale.job.wait_for("log.lost", rank=0)
    tale.let("room")
    assert tale.job.end() == 0
    end, missing = accounted(tale.log().read_bytes(), BLOCK_BYTES)
    assert end == (MUCH + 2) * BLOCK_BYTES
    assert missing == tale.lost() > 0


def remove(directory: Path) -> None:
    """At once: the supervisor may be writing its state in it."""
    away = directory.with_name("away")
    directory.rename(away)
    while away.exists():
        shutil.rmtree(away, ignore_errors=True)


# One way is enough to wait for the seconds that a disk may stand still.
@pytest.mark.parametrize("way", ["ordinary"], indirect=True)
def test_a_log_that_cannot_be_written_is_told_although_little_is_said(bad_day, way, place):
    story = "say 1, note begun, wait removed, say 1, wait room, say 1"
    tale = Tale(bad_day, way, place / "one", (story,))
    tale.note("begun")
    tale.written()
    tale.log().unlink()
    tale.log().mkdir()
    tale.let("removed")
    assert tale.job.wait_for("log.blocked", rank=0)["reason"] == "Is a directory"
    tale.log().rmdir()
    tale.let("room")
    assert tale.job.end() == 0
    assert accounted(tale.log().read_bytes(), BLOCK_BYTES) == (3 * BLOCK_BYTES, 0)
    assert len(tale.job.all("log.blocked")) == 1


# One way is enough to wait until it is looked for.
@pytest.mark.parametrize("way", ["ordinary"], indirect=True)
def test_a_state_file_that_is_removed_is_written_again_although_nothing_happens(
    bad_day, way, place
):
    tale = Tale(bad_day, way, place / "one", ("note begun, wait over",))
    tale.note("begun")
    tale.is_known()
    known = tale.state()
    remove(tale.logs)
    wait_until((tale.logs / STATE).exists)
    assert tale.state() == known
    tale.let("over")
    assert tale.job.end() == 0
    assert tale.state()["phase"] == "ended"


@pytest.mark.parametrize("way", ["ordinary"], indirect=True)
def test_sockets_that_are_removed_are_made_again_although_nothing_happens(bad_day, way, place):
    tale = Tale(bad_day, way, place / "one", ("note begun, wait over",))
    tale.note("begun")
    tale.is_known()
    control = tale.logs / f"{STATE}.sock"
    remove(tale.logs)
    wait_until(control.exists)
    assert ask(control, "ping")["pid"] == tale.job.pid
    tale.let("over")
    assert tale.job.end() == 0
    assert not control.exists()


# A read-only one.


def test_a_read_only_log_directory_is_refused(bad_day, way, place):
    with small_disk(place / "disk", way.uid) as disk:
        used = partial(Tale, bad_day, way, place / "one", ("say 1",), logs=disk / "used")
        elsewhere = str(place / "one")
        assert used(mount=elsewhere).job.end() == 0
        make_read_only(disk, way)
        tales = [
            used(mount=elsewhere),
            used(),
            Tale(bad_day, way, place / "two", ("say 1",), logs=disk / "fresh" / "logs"),
        ]
        for tale in tales:
            assert tale.job.end() == CANNOT_WRITE
            *_, sentence = tale.job.stderr.splitlines()
            assert str(disk) in sentence
            assert "Read-only file system" in sentence or "Permission denied" in sentence
            assert tale.job.events[-1]["root_cause"] in sentence
            assert not tale.job.all("generation.started")


def make_read_only(disk: Path, way: Way) -> None:
    if way.uid:
        for directory in (disk, *disk.rglob("*")):
            directory.chmod(0o555)
    else:
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)


OF_A_FAILING_DISK = {os.strerror(n) for n in (errno.EROFS, errno.EIO, errno.EBADMSG)}
"""EBADMSG, a wrong checksum: ext4 may say so of what was open when it gave up (Linux 6.18)."""


def test_on_a_disk_that_becomes_read_only_no_rank_is_stopped(bad_day, way, place):
    with failing_disk(place / "disk", way.uid) as fail:
        story = f"say 1, note begun, wait failed, say {MUCH}, note said, wait seen"
        tale = Tale(bad_day, way, place / "one", (story,), logs=place / "disk" / "logs")
        tale.note("begun")
        tale.written()
        fail()
        tale.let("failed")
        tale.note("said")
        told = tale.job.wait_for("log.blocked", rank=0)
        assert told["reason"] in OF_A_FAILING_DISK
        tale.let("seen")
        assert tale.job.end() == 0
        [why] = re.findall(f"{STATE} cannot be written: (.*)$", tale.job.stderr, re.MULTILINE)
        assert why in OF_A_FAILING_DISK
        end, missing = accounted(tale.log().read_bytes())
        assert (end, missing) == (BLOCK_BYTES, 0)
        assert tale.lost() == MUCH * BLOCK_BYTES


# A frozen one: a write to it does not return.

BOUND_SECONDS = 8 * STALL_SECONDS
"""For an end: ranks, logs, state file and termination log may each take STALL_SECONDS."""
HEARD_SECONDS = 1.5
"""Where the event loop wrote itself, it was 3 s."""
FLOODS = f"ignore SIGTERM, say 1, note begun, wait frozen, say {MUCH}, note said"
SAYS_AND_FAILS = "say 1, end 1"
AGAIN = ("--restarts", "9", "--restart-delay", "0", "--min-uptime", "0", "--release-delay")


def test_a_frozen_disk_keeps_nobody(bad_day, way, place):
    cases = (
        it_thaws,
        it_stays_frozen,
        it_thaws_when_it_has_been_given_up,
        it_thaws_before_the_first_generation,
        it_was_frozen_before_the_directories_were_made,
        it_was_frozen_before_the_table_was_copied,
        it_was_frozen_before_it_was_looked_for,
        it_freezes_in_the_back_off,
        it_freezes_before_the_next_generation,
    )
    with (
        hanging(place, way.uid, *(case.__name__ for case in cases)) as disks,
        ThreadPoolExecutor(len(cases)) as together,
    ):
        running = [
            together.submit(case, disk, partial(Tale, bad_day, way, place / f"job of {disk.name}"))
            for case, disk in zip(cases, disks, strict=True)
        ]
        told = [
            f"{case.__name__}: {''.join(traceback.format_exception(error))}"
            for case, future in zip(cases, running, strict=True)
            if (error := future.exception())
        ]
    assert not told, "\n".join(told)


def it_thaws(disk: Hanging, tell: Callable[..., Tale]) -> None:
    logs = disk.target / "logs"
    tale = tell((f"{FLOODS}, wait thawed, say 1",), *ROTATED, logs=logs)
    freezes_under(tale, disk)
    heard = [heard_after(tale.job, number) for number in range(9)]
    assert statistics.median(heard) < HEARD_SECONDS, heard
    tale.job.send(signal.SIGHUP)
    assert tale.note("said") < 4 * STALL_SECONDS
    told = tale.job.wait_for("log.blocked", rank=0)
    assert told["reason"] == f"a write has not returned for {STALL_SECONDS:g} s"
    disk.thaw()
    tale.job.wait_for("log.lost", rank=0)
    tale.let("thawed")
    assert tale.job.end() == 0
    assert tale.job.all("log.rotated")
    end, missing = accounted(tale.whole_log())
    assert end == (MUCH + 2) * BLOCK_BYTES
    assert missing == tale.lost() > 0
    assert tale.state()["phase"] == "ended"


def heard_after(job: Running, number: int) -> float:
    """Seconds from a signal to the moment in which the supervisor says that it has come."""
    sent = time.time()
    job.send(signal.SIGUSR1)
    *_, event = islice(job.each("signal.received"), number + 1)
    return datetime.fromisoformat(event["ts"].replace("Z", "+00:00")).timestamp() - sent


def it_stays_frozen(disk: Hanging, tell: Callable[..., Tale]) -> None:
    tale = tell((FLOODS,), logs=disk.target / "logs")
    freezes_under(tale, disk)
    stops(tale)
    assert tale.note("said") < 4 * STALL_SECONDS
    tale.logs = disk.source / "logs"
    there, missing = accounted(tale.log().read_bytes())
    assert (there, missing) == (BLOCK_BYTES, 0)
    assert tale.lost() == MUCH * BLOCK_BYTES


def freezes_under(tale: Tale, disk: Hanging) -> None:
    """While the rank says much."""
    tale.note("begun")
    tale.written()
    disk.freeze()
    tale.let("frozen")
    wait_until(lambda: disk.asked)


def it_thaws_when_it_has_been_given_up(disk: Hanging, tell: Callable[..., Tale]) -> None:
    """What has been told as lost may not be written then; but one write was under way."""
    termination = disk.target / "termination-log"  # is still waited for then
    tale = tell((FLOODS,), "--termination-log", str(termination), logs=disk.target / "logs")
    freezes_under(tale, disk)
    tale.job.send(signal.SIGTERM)
    tale.job.wait_for("log.lost")
    disk.thaw()
    assert tale.job.end() == STOPPED
    end, missing = accounted(tale.log().read_bytes())
    all_of_it = (MUCH + 1) * BLOCK_BYTES
    assert all_of_it <= end - missing + tale.lost() <= all_of_it + CHUNK_BYTES
    assert termination.read_text()


def stops(tale: Tale) -> None:
    """It is told to, and does in time, without leaving a generation that was begun untold."""
    began = time.monotonic()
    tale.job.send(signal.SIGTERM)
    assert tale.job.end() == STOPPED, tale.job.stderr
    assert time.monotonic() - began < BOUND_SECONDS
    started, ended = (tale.job.all(f"generation.{what}") for what in ("started", "ended"))
    assert len(started) == len(ended)
    assert tale.job.events[-1]["event"] == "supervisor.exited"


def is_waited_for(tale: Tale) -> None:
    """The disk, after 5 s, and that is told."""
    tale.job.wait_for("diagnostic", source="the ranks' directories and logs")


def it_was_frozen_before_the_directories_were_made(
    disk: Hanging, tell: Callable[..., Tale]
) -> None:
    disk.freeze()
    tale = tell(("say 1",), logs=disk.target / "logs", mount=str(disk.source.parent / "mount"))
    is_waited_for(tale)
    stops(tale)


def it_was_frozen_before_the_table_was_copied(disk: Hanging, tell: Callable[..., Tale]) -> None:
    disk.freeze()
    tale = tell(("say 1",), logs=disk.target / "logs")
    is_waited_for(tale)
    stops(tale)


def it_was_frozen_before_it_was_looked_for(disk: Hanging, tell: Callable[..., Tale]) -> None:
    disk.freeze()
    tale = tell(("say 1",), mount=str(disk.target))
    wait_until(lambda: disk.asked)
    stops(tale)


def it_thaws_before_the_first_generation(disk: Hanging, tell: Callable[..., Tale]) -> None:
    logs = disk.source / "log"
    logs.mkdir()
    shutil.chown(logs, disk.source.stat().st_uid)
    disk.freeze()
    tale = tell(("say 1",), mount=str(disk.target))
    is_waited_for(tale)
    disk.thaw()
    assert tale.job.end() == 0
    assert accounted(tale.log().read_bytes()) == (BLOCK_BYTES, 0)
    assert tale.state()["phase"] == "ended"


def it_freezes_in_the_back_off(disk: Hanging, tell: Callable[..., Tale]) -> None:
    elsewhere = disk.source.parent / "state.json"
    records = ("--state-file", str(elsewhere), "--termination-log", str(disk.target / "end"))
    tale = tell((SAYS_AND_FAILS,), *AGAIN, "1000h", *records, logs=disk.target / "logs")
    tale.job.wait_for("restart.scheduled")
    disk.freeze()
    stops(tale)


def it_freezes_before_the_next_generation(disk: Hanging, tell: Callable[..., Tale]) -> None:
    mount = disk.source.parent / "mount"
    tale = tell((SAYS_AND_FAILS,), *AGAIN, "1", logs=disk.target / "logs", mount=str(mount))
    tale.job.wait_for("restart.scheduled")
    disk.freeze()
    is_waited_for(tale)
    stops(tale)
