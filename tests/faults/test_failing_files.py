"""Any error of any system call on files of others: a sentence or a wait, never a defect.

The kernel's answers are replaced by strace, for the calls on these files only.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.faults.facilities import program
from tests.running import Running, python, wait_until

ORDINARY = pytest.mark.parametrize("way", ["ordinary"], indirect=True)
"""Who traces is not who is traced: other ways only make the tracing harder."""

CALLS = {
    "open": ("open,openat", ("EACCES", "EIO", "ESTALE")),
    "status": ("stat,lstat,fstat,newfstatat,statx", ("EACCES", "ESTALE", "EOVERFLOW")),
    "read": ("read,pread64", ("EAGAIN", "EIO", "ESTALE")),
    "close": ("close", ("EIO", "ENOSPC")),
    "directory": ("getdents64", ("EIO", "ESTALE")),
    "write": ("write,pwrite64,ftruncate", ("EIO", "ENOSPC", "ESTALE")),
    "name": ("rename,renameat,renameat2,unlink,unlinkat", ("EIO", "EBUSY")),
    "mode": ("chmod,fchmod,fchmodat", ("EPERM", "EROFS")),
    "lock": ("flock", ("ENOLCK", "EIO")),
}
"""Some of the errors that open(2), stat(2), ... name, and those of network file systems."""
READING = ("open", "status", "read", "close")

TABLE = {
    "version": "1.0",
    "server_count": "1",
    "status": "completed",
    "server_list": [
        {
            "server_id": "10.0.0.1",
            "device": [{"device_id": "0", "device_ip": "192.168.100.1", "rank_id": "0"}],
        }
    ],
}
RESET = '{"RankList": [], "RetryTime": 0}'
STATE = "modelarts-job-test-supervisor-job-test-0.json"
LOG = "modelarts-job-test-proc-rank-0-device-0.txt"


class Files:
    """The files of one job, which all exist before it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.config = self._with(place / "config.toml", "grace = 3\n")
        self.table = self._with(place / "table" / "jobstart_hccl.json", json.dumps(TABLE))
        self.reset = self._with(place / "reset" / "reset.json", RESET)
        self.end = self._with(place / "end", "")
        self.logs = place / "log"
        self.state = self._with(self.logs / STATE, "{}")
        self.lock = self._with(self.logs / f"{STATE}.lock", "")
        self.log = self._with(self.logs / LOG, "of an earlier start\n")

    @staticmethod
    def _with(path: Path, text: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    @property
    def words(self) -> Sequence[str]:
        return (
            *("--config", str(self.config), "--rank-table", str(self.table)),
            *("--server-id", "10.0.0.1", "--rank-table-timeout", "1.5", "--follow-cluster"),
            *("--reset-file", str(self.reset), "--cluster-verdict", "0.1"),
            *("--log-dir", str(self.logs), "--work-dir", str(self.place / "work")),
            *("--termination-log", str(self.end)),
        )


def injecting(call: str, error: str, *paths: Path) -> list[str]:
    names, _ = CALLS[call]
    where = [word for path in paths for word in ("-P", str(path))]
    what = ("-e", f"trace={names}", "-e", f"inject={names}:error={error}")
    return [program("strace", "strace"), "-f", *where, *what]


@pytest.fixture
def job(bad_day: Callable[..., Running], place: Path) -> Callable[..., tuple[Files, Running]]:
    def start(name: str, call: str, error: str, *command: str) -> tuple[Files, Running]:
        files = Files(place / f"{name}-{call}-{error}")
        path = getattr(files, name)
        # Only these calls stop: each stop waits for a turn of strace, and costs milliseconds on a
        # busy machine.
        before = (*injecting(call, error, path), "--seccomp-bpf", "-qq", "-o", "/dev/null")
        home = files.place.name
        running = bad_day(
            *files.words, *command, before=before, home=home, environ={"MA_MOUNT_PATH": ""}
        )
        return files, running

    return start


STARTS: dict[str, tuple[set[int], tuple[str, ...]]] = {
    "config": ({64}, READING),
    "table": ({75}, READING),
    "reset": ({0}, READING),
    "state": ({0}, (*READING, "write", "name", "mode")),
    "lock": ({0}, (*READING, "write", "lock")),
    "log": ({0, 73}, (*READING, "write", "name", "mode")),
    "logs": ({0, 73}, ("open", "status", "close", "directory")),
    "end": ({0}, ("open", "status", "close", "write")),
}
"""The exit codes that are right, and the calls that fail; what is only read may fail to close."""


def starts() -> Iterator[tuple[str, str, str]]:
    """Each call on each file, and each call with each of its errors, but not all three together."""
    for call, (_, errors) in CALLS.items():
        names = [name for name, (_, calls) in STARTS.items() if call in calls]
        for number in range(max(len(names), len(errors))):
            yield names[number % len(names)], call, errors[number % len(errors)]


@ORDINARY
@pytest.mark.parametrize(("name", "call", "error"), [*starts()])
def test_a_start_where_a_call_fails_goes_on_or_is_refused(job, name, call, error):
    files, running = job(name, call, error, "--", "true")
    code = running.end()
    codes, _ = STARTS[name]
    assert code in (codes if call != "close" else codes - {64, 75} or {0}), running.events[-2:]
    assert not running.all("supervisor.defect")
    assert "Traceback" not in running.stderr
    if code in {64, 73, 75}:
        assert str(getattr(files, name)) in running.stderr


LOOKS = 2
"""Calls that have failed: one for each of two files, or for each of two looks at one."""
RANK = """
import os, sys, time
while not os.path.exists(sys.argv[1]):
    print("a step")
    sys.stdout.flush()
    time.sleep(0.05)
"""


@contextlib.contextmanager
def failing(running: Running, call: str, error: str, *paths: Path) -> Iterator[Callable[[], int]]:
    """The calls of a running supervisor on these files fail meanwhile; gives how many have."""
    trace = running.root / "trace"
    words = [*injecting(call, error, *paths), "-o", str(trace), "-p", str(running.pid)]
    tracer = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    assert tracer.stderr is not None
    first = tracer.stderr.readline()
    # Not before: a file that is read in time is not read again.
    if f"Process {running.pid} attached" not in first:
        pytest.skip(f"strace cannot attach here: {first.strip()}")
    drained = threading.Thread(target=tracer.stderr.read, daemon=True)
    drained.start()
    try:
        yield lambda: trace.read_text().count("(INJECTED)")
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.wait(30)
        drained.join(30)
        tracer.stderr.close()


def have_failed(failed: Callable[[], int], times: int) -> bool:
    return failed() >= times


@ORDINARY
@pytest.mark.parametrize("call", CALLS)
def test_while_ranks_run_no_failing_call_ends_them(bad_day, place, call):
    files = Files(place / "job")
    stop = place / "stop"
    running = bad_day(
        *files.words, *python(RANK), str(stop), home="job", environ={"MA_MOUNT_PATH": ""}
    )
    running.wait_for("process.started")
    _, errors = CALLS[call]
    everything = [value for value in vars(files).values() if value != files.place]
    for error in errors:
        with failing(running, call, error, *everything) as failed:
            for path in (files.table, files.reset):
                os.utime(path)  # so that they are read again
            if call in READING:
                wait_until(partial(have_failed, failed, LOOKS))
            else:
                threading.Event().wait(2.5)  # two looks, which need none of these calls
    stop.touch()
    assert running.end() == 0, running.events[-3:]
    assert len(running.all("generation.started")) == 1
    assert not running.all("supervisor.defect")
    assert "Traceback" not in running.stderr


@ORDINARY
def test_a_reset_file_that_has_nothing_to_read_is_ignored_and_told_once(bad_day, place):
    files = Files(place / "job")
    stop = place / "stop"
    running = bad_day(
        *files.words, *python(RANK), str(stop), home="job", environ={"MA_MOUNT_PATH": ""}
    )
    running.wait_for("process.started")
    with failing(running, "read", "EAGAIN", files.reset) as failed:
        os.utime(files.reset)
        wait_until(lambda: running.all("diagnostic", source="reset file"))
        wait_until(partial(have_failed, failed, failed() + LOOKS))
    stop.touch()
    assert running.end() == 0
    (told,) = running.all("diagnostic", source="reset file")
    assert "the reset file cannot be read: it has nothing to be read now" in told["msg"]


@ORDINARY
def test_a_reset_file_that_names_a_rank_of_another_job_ends_nothing(bad_day, place):
    files = Files(place / "job")
    stop = place / "stop"
    running = bad_day(
        *files.words, *python(RANK), str(stop), home="job", environ={"MA_MOUNT_PATH": ""}
    )
    running.wait_for("process.started")
    files.reset.write_text('{"RankList": [{"RankId": 7, "Status": "failed"}], "RetryTime": 0}')
    told = running.wait_for("diagnostic", source="reset file")
    assert "the reset file names rank 7, but this job has ranks 0 to 0" in told["msg"]
    stop.touch()
    assert running.end() == 0
    assert not running.all("cluster.incident")
