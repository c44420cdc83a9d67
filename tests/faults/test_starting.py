"""Ranks that cannot be started: no room, no program, no directory; it is said, nothing is left."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.faults.facilities import cgroup, inside, program
from tests.faults.ways import Way
from tests.running import FORBIDS, Running, python, wait_until

RANKS = 8
SIXTH = 5
AT_ONCE = 6
STATE = "modelarts-job-test-supervisor-job-test-0.json"
UNAVAILABLE, CANNOT_WRITE, TIMED_OUT, CANNOT_EXECUTE, NOT_FOUND = 69, 73, 75, 126, 127
STAYS = 'read line < "$0"; exit 0'
"""A rank that lives until there is a line for it, and needs no other process to do so."""

Lift = Callable[[Running], object]


@dataclass(frozen=True, slots=True)
class Limited:
    """What is started after the words ``before`` is limited until the limit is lifted."""

    before: tuple[str, ...]
    lift: Lift


def files(limit: int, way: Way, _: ExitStack) -> Limited:
    def lift(job: Running) -> None:
        limit_files(job, way, 64)

    return Limited(("prlimit", f"--nofile={limit}:64"), lift)


def limit_files(job: Running, way: Way, limit: int) -> None:
    """Of a supervisor that runs."""
    its_user = ("setpriv", f"--reuid={way.uid}", f"--regid={way.uid}", "--clear-groups")
    words = ("prlimit", f"--pid={job.pid}", f"--nofile={limit}:")
    subprocess.run([*(its_user if way.uid else ()), *words], check=True)


def tasks(limit: int, _: Way, stack: ExitStack) -> Limited:
    """Processes and threads."""
    group = stack.enter_context(cgroup("pids", max=str(limit)))
    return Limited(inside(group), lambda _: (group / "pids.max").write_text("max"))


class Crew:
    """A job of ranks that stay; its files are below ``home``."""

    def __init__(
        self, start: Callable[..., Running], way: Way, home: Path, *options: str, limited: Limited
    ) -> None:
        (home / "log").mkdir(parents=True)
        os.mkfifo(home / "lines")
        for made in (home, home / "log", home / "lines"):
            os.chown(made, way.uid, -1)
        self._lines = os.open(home / "lines", os.O_RDWR | os.O_NONBLOCK)
        self._limited = limited
        self.job = start(
            *("--standalone", str(RANKS), *options, "--", "sh", "-c", STAYS, str(home / "lines")),
            environ={"MA_MOUNT_PATH": str(home)},
            before=limited.before,
        )

    def lift(self) -> None:
        self._limited.lift(self.job)

    def end(self) -> int:
        """As soon as all ranks have been started, they end; else it is over by itself."""
        complete = partial(self.job.all, "process.started", rank=RANKS - 1)
        wait_until(lambda: complete() or self.job.process.poll() is not None)
        os.write(self._lines, RANKS * b"\n")
        code = self.job.end()
        os.close(self._lines)
        return code


PYTHONS_OWN = re.compile(r"Error 24|Errno 24|cannot fork|fork failed", re.IGNORECASE)
"""What Python says, or what starts it, when that alone is too much."""
STACK_BYTES = 1 << 20
"""Of the limit of the stack; a quarter of it is for the command line and the environment."""
SENTENCE = re.compile(r"ascend_supervisor: (rank (\d): )?.*(room|open).*[;:] raise .*")


def lacking(job: Running, code: int) -> int | None:
    """The rank that found no room, where it came so far; asserts that this is told and all is over.

    Or that everything went well.
    """
    told = f"code {code}: {job.stderr}"
    if code not in {0, UNAVAILABLE} and not job.events:
        assert PYTHONS_OWN.search(job.stderr), told
        return None
    assert code in {0, UNAVAILABLE}, told
    assert "Traceback" not in job.stderr, told
    assert not job.all("supervisor.defect"), told
    generations = [event["generation"] for event in job.all("generation.started")]
    assert [event["generation"] for event in job.all("generation.ended")] == generations
    started = [(event["generation"], event["rank"]) for event in job.all("process.started")]
    exited = [(event["generation"], event["rank"]) for event in job.all("process.exited")]
    assert sorted(exited) == started, told
    if code == 0:
        return None
    said = SENTENCE.fullmatch(job.stderr.splitlines()[-1])
    assert said, told
    if job.events:
        assert job.events[-1].get("exit_code") == code, f"{told} {job.events}"
        assert job.events[-1]["root_cause"] in said.group()
    if not started:
        return None
    assert said.group(1), told
    rank = int(said.group(2))
    last = [number for generation, number in started if generation == generations[-1]]
    assert last == list(range(rank))
    return rank


@pytest.mark.parametrize(
    ("scarce", "limits"),
    [(files, range(3, 49)), (tasks, range(2, 33))],
    ids=["files", "processes and threads"],
)
def test_whatever_the_limit_a_job_runs_or_says_what_it_lacks(bad_day, way, place, scarce, limits):
    # What it lacks before any rank is started is the same whoever it is.
    ordinary = way.name == "ordinary"
    some = limits if ordinary else limits[len(limits) // 2 :: 2]
    lacked: dict[int | None, int] = {}
    codes = []
    for few in (some[first : first + AT_ONCE] for first in range(0, len(some), AT_ONCE)):
        with ExitStack() as stack:
            crews = {
                limit: Crew(bad_day, way, place / str(limit), limited=scarce(limit, way, stack))
                for limit in few
            }
            for limit, crew in crews.items():
                codes.append(crew.end())
                lacked[lacking(crew.job, codes[-1])] = limit
                assert not crew.job.survivors()
    assert codes[-1] == 0
    if ordinary:
        # On a busy machine threads come and go at other moments: 4 of 7 ranks were seen.
        assert len(lacked.keys() & set(range(1, RANKS))) >= 3, "they were without room"
    rank = max(rank for rank in lacked if rank is not None and 0 < rank <= SIXTH)
    with ExitStack() as stack:
        for_ever, lifted = (
            Crew(
                *(bad_day, way, place / name, *options, "--restart-delay", "0"),
                *("--min-uptime", "0"),
                limited=scarce(lacked[rank], way, stack),
            )
            for name, options in {
                "for ever": ("--restarts", "2"),
                "lifted": ("--restarts", "99", "--release-delay", "0.1"),
            }.items()
        )
        lifted.job.wait_for("restart.scheduled")
        lifted.lift()
        assert lifted.end() == 0
        assert outcomes(lifted.job)[0] == "fault"
        assert outcomes(lifted.job)[-1] == "completed"
        assert for_ever.end() == UNAVAILABLE
        assert lacking(for_ever.job, UNAVAILABLE), "the state file may have taken one, or not"
        assert outcomes(for_ever.job) == ["fault", "fault", "fault"]


OPTIONAL = {"the lock of the state file", "the control socket"}
"""Where there is no room for them, that is told."""


# Whose descriptors they are is the same, whoever we are.
@pytest.mark.parametrize("way", ["ordinary"], indirect=True)
def test_the_end_is_told_in_every_place_where_no_log_or_pipe_can_be_opened(bad_day, way, place):
    told = []
    with ExitStack() as stack:
        for limit in range(9, 18):
            home = place / str(limit)
            options = ("--termination-log", str(home / "end"))
            crew = Crew(bad_day, way, home, *options, limited=files(limit, way, stack))
            assert crew.end() == UNAVAILABLE
            lacking(crew.job, UNAVAILABLE)
            if not crew.job.events:  # not even an event loop
                continue
            told.append(limit)
            cause = crew.job.events[-1]["root_cause"]
            state = json.loads((home / "log" / STATE).read_text())
            assert (state["phase"], state["exit_code"]) == ("ended", UNAVAILABLE)
            assert state["root_cause"] == cause
            assert (home / "end").read_text() == f"{cause}\n"
            assert {e["source"] for e in crew.job.all("diagnostic")} <= OPTIONAL
    assert set(range(11, 18)) <= set(told)


# Whoever we are, watchfiles wants a thread of its own.
@pytest.mark.parametrize("way", ["ordinary"], indirect=True)
def test_whatever_the_limit_of_threads_a_table_is_waited_for_or_there_is_a_sentence(
    bad_day, way, place
):
    """Without room for its thread, watchfiles would abort the whole process."""
    options = ("--rank-table", str(place / "hccl.json"), "--rank-table-timeout", "1s")
    with ExitStack() as stack:
        jobs = {
            limit: bad_day(
                *(*options, "--", "true"),
                before=tasks(limit, way, stack).before,
                home=f"home of {limit}",
            )
            for limit in range(3, 19)
        }
        codes = {limit: job.end() for limit, job in jobs.items()}
    assert set(codes.values()) == {UNAVAILABLE, TIMED_OUT}, codes
    assert any("another thread" in job.stderr for job in jobs.values())


def outcomes(job: Running) -> list[str]:
    return [event["outcome"] for event in job.all("generation.ended")]


LEAVES = 'setsid sh -c "echo away; exec sleep 600" & exec sleep 600'


# As PID 1 whoever is left ends with it; and nobody's privilege opens a file where there is no room.
@pytest.mark.parametrize("way", ["ordinary"], indirect=True)
def test_nobody_is_taken_for_gone_while_no_file_can_be_opened_to_look(bad_day, way):
    """The same where the machine has none left (ENFILE), or no memory for one (ENOMEM)."""
    job = bad_day("--standalone", "2", "--", "sh", "-c", LEAVES)
    for rank in range(2):
        job.wait_for("output", rank=rank, msg="away")
    limit_files(job, way, 3)
    job.send(signal.SIGTERM)
    for rank in range(2):
        job.wait_for("process.exited", rank=rank)
    job.wait_for("stop.waiting")
    limit_files(job, way, 64)
    assert job.end() == 128 + signal.SIGTERM
    assert len(job.wait_for("orphans.killed")["pids"]) == 2
    assert not job.all("supervisor.defect")


# What cannot be executed, and where.

Prepare = Callable[[Path], tuple[str, ...]]
"""Gives the command, for a job whose files are in a directory."""


def a_directory(home: Path) -> tuple[str, ...]:
    return (str(home),)


def a_directory_for_one(home: Path) -> tuple[str, ...]:
    for rank in range(RANKS):
        (home / "workspace" / f"device{rank}").mkdir(parents=True)
        run = home / "workspace" / f"device{rank}" / "run"
        if rank == SIXTH:
            run.mkdir()
        else:
            run.symlink_to("/bin/true")
    return ("./run",)


def a_program_for_another_machine(home: Path) -> tuple[str, ...]:
    """As ours, but for the number of the machine (elf(5): e_machine)."""
    data = bytearray(Path(sys.executable).resolve().read_bytes()[:4096])
    data[18] ^= 0x40
    return executable(home, bytes(data))


def a_script_that_does_not_say_of_what(home: Path) -> tuple[str, ...]:
    return executable(home, b"exit 0\n")


def executable(home: Path, content: bytes) -> tuple[str, ...]:
    path = home / "program"
    path.write_bytes(content)
    path.chmod(0o755)
    return (str(path),)


def a_file_where_one_works(home: Path) -> tuple[str, ...]:
    (home / "workspace").mkdir()
    (home / "workspace" / f"device{SIXTH}").touch()
    return ("true",)


def a_script_whose_interpreter_is_missing(home: Path) -> tuple[str, ...]:
    return executable(home, b"#!/no/such/interpreter\n")


def a_script_that_was_written_on_windows(home: Path) -> tuple[str, ...]:
    return executable(home, b"#!/bin/sh\r\ntrue\r\n")


def a_script_for_env_that_was_written_on_windows(home: Path) -> tuple[str, ...]:
    return executable(home, b"#!/usr/bin/env python3\r\npass\r\n")


CANNOT = {
    a_script_that_was_written_on_windows: (
        NOT_FOUND,
        r"rank 0: .* \(CRLF\), so that its interpreter '/bin/sh\\r' does not exist; .*sed -i .*",
    ),
    a_script_for_env_that_was_written_on_windows: (
        NOT_FOUND,
        r"rank 0: .* \(CRLF\), so that its interpreter 'python3\\r' does not exist; .*sed -i .*",
    ),
    a_script_whose_interpreter_is_missing: (
        NOT_FOUND,
        "rank 0: .*' begins with #!/no/such/interpreter, which was not found .*",
    ),
    a_directory: (CANNOT_EXECUTE, "rank 0: .* is a directory, not a program .*"),
    a_directory_for_one: (CANNOT_EXECUTE, "rank 5: './run' is a directory, not a program .*"),
    a_program_for_another_machine: (CANNOT_EXECUTE, "rank 0: .*program' cannot be executed: .*"),
    a_script_that_does_not_say_of_what: (CANNOT_EXECUTE, "rank 0: .*' cannot be executed: .*"),
    a_file_where_one_works: (
        CANNOT_WRITE,
        "rank 5: cannot make the directory .*/device5: Not a directory; choose another one .*",
    ),
}


def test_a_command_that_cannot_be_executed_is_not_tried_again(bad_day, way, place):
    jobs = {}
    for prepare in CANNOT:
        home = place / prepare.__name__
        (home / "log").mkdir(parents=True)
        command = prepare(home)
        for path in (home, *home.rglob("*")):
            os.chown(path, way.uid, -1, follow_symlinks=False)
        options = ("--standalone", str(RANKS), "--rank-dir", "device", "--restarts", "3")
        environ = {"MA_MOUNT_PATH": str(home)}
        jobs[prepare] = bad_day(*options, "--restart-delay", "0", "--", *command, environ=environ)
    for prepare, job in jobs.items():
        assert refused(job, *CANNOT[prepare]) == [], prepare.__name__
        assert outcomes(job) == job.all("generation.started") == [], prepare.__name__


def refused(job: Running, code: int, sentence: str) -> list[str]:
    """What is wrong with the end of a job that was to be refused with ``code`` and ``sentence``."""
    ended = job.end()
    told = job.events[-1]["root_cause"] or ""
    found = []
    if ended != code or job.events[-1]["exit_code"] != code:
        found.append(f"exit code {ended}: {job.stderr}")
    if not re.fullmatch(sentence, told) or f"ascend_supervisor: {told}\n" != job.stderr:
        found.append(f"it says {told!r} and {job.stderr!r}")
    if len(job.all("process.started")) != len(job.all("process.exited")):
        found.append("not every process that was started has its end")
    return found


# For root there is no directory that cannot be made.
@pytest.mark.parametrize("way", ["unprivileged"], indirect=True)
def test_where_the_usual_work_directory_cannot_be_made_there_is_another(bad_day, place):
    logs = place / "modelarts" / "log"
    options = ("--standalone", "2", "--rank-dir", "device", "--log-dir", str(logs))
    job = bad_day(*options, "--console", "json", "--", "pwd", environ={"MA_MOUNT_PATH": ""})
    assert job.end() == 0, job.stderr
    work = logs / "modelarts-job-test" / "workspace" / "job-test-0"
    assert [job.said(rank) for rank in range(2)] == [[f"{work}/device{rank}"] for rank in range(2)]


# Before it is somebody else who may not enter.
@pytest.mark.parametrize("way", ["unprivileged"], indirect=True)
def test_a_directory_that_a_rank_may_not_enter_ends_those_before_it(bad_day, way, place):
    closed = place / "modelarts" / "workspace" / f"device{SIXTH}"
    closed.mkdir(parents=True)
    for path in (closed, closed.parent, closed.parent.parent):
        os.chown(path, way.uid, -1)
    closed.chmod(0o000)
    options = ("--standalone", str(RANKS), "--rank-dir", "device", "--restarts", "3")
    job = bad_day(*options, "--", "sleep", "600")
    directory = f"cannot enter its directory .*/device{SIXTH}"
    sentence = f"rank {SIXTH}: {directory}: Permission denied for user [0-9]+"
    assert refused(job, CANNOT_WRITE, sentence) == []
    assert outcomes(job) == ["not_started"]
    assert [event["rank"] for event in job.all("process.started")] == list(range(SIXTH))


IN_A_DELETED_DIRECTORY = ("sh", "-e", "-c", 'mkdir gone; cd gone; rmdir ../gone; exec "$@"', "sh")


# It is gone for everybody.
@pytest.mark.parametrize("way", ["ordinary"], indirect=True)
@pytest.mark.parametrize("check", [(), ("--check",)])
def test_a_working_directory_that_was_deleted_is_said(bad_day, check):
    options = (*check, "--standalone", "1", "--", "true")
    job = bad_day(*options, before=IN_A_DELETED_DIRECTORY)
    assert job.end() == CANNOT_WRITE
    (told,) = job.events
    assert told["event"] == "supervisor.exited"
    assert told["exit_code"] == CANNOT_WRITE
    assert told["root_cause"].startswith("the working directory of the supervisor is gone: ")
    assert job.stderr == f"ascend_supervisor: {told['root_cause']}\n"


# How much the kernel hands over is the same for everybody.
@pytest.mark.parametrize("way", ["ordinary", "pid_1"], indirect=True)
def test_an_environment_that_is_too_long_with_what_a_rank_gets_is_said(bad_day):
    """It gets shorter until there is room for it beside our words; a rank gets more words."""
    size = STACK_BYTES // 4
    code, job = None, None
    while job is None or not job.events:
        size -= 500
        many = {f"LONG{number}": "x" * (size // 4) for number in range(4)}
        options = ("--standalone", str(RANKS), "--restarts", "3", "--", "true")
        job = bad_day(*options, environ=many, before=("prlimit", f"--stack={STACK_BYTES}"))
        code = job.end()
    assert code == CANNOT_EXECUTE
    sentence = "rank 0: 'true' cannot be executed: Argument list too long"
    assert refused(job, CANNOT_EXECUTE, sentence) == []
    assert outcomes(job) == ["not_started"]


def test_a_kernel_that_lets_us_adopt_nobody_is_named(tmp_path):
    """As under qemu-user: what a rank leaves behind could not be ended."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is missing (Debian's package strace)")
    refuse = (strace, "-qq", "-o", "/dev/null", "-e", "inject=prctl:error=EINVAL")
    ended = subprocess.run(
        (*refuse, sys.executable, "-m", "ascend_supervisor", "--standalone", "1", "--", "true"),
        env={"PATH": os.environ["PATH"], "MA_MOUNT_PATH": str(tmp_path)},
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == UNAVAILABLE
    assert ended.stderr == (
        "ascend_supervisor: cannot start: prctl(PR_SET_CHILD_SUBREAPER) fails (Invalid argument): "
        "expected Linux 3.4 or newer, and neither qemu-user nor a sandbox that forbids it\n"
    )


@pytest.mark.parametrize("way", ["ordinary", "pid_1"], indirect=True)
def test_a_runtime_that_forbids_clone3_is_one_sentence_and_69(bad_day):
    """As those of containers did before glibc 2.34, with EPERM."""
    before = (sys.executable, "-c", FORBIDS, str(errno.EPERM), "435", "--")
    job = bad_day("--standalone", "2", "--", "true", before=before)
    assert job.end() == 69
    assert "another thread is forbidden (Operation not permitted)" in job.stderr
    assert "Docker 20.10.10 or later" in job.stderr


SAVES = python(
    "import signal, sys, time; "
    "signal.signal(signal.SIGTERM, lambda *_: (print('saved', flush=True), sys.exit()))\n"
    "while True: print('step', flush=True); time.sleep(0.05)"
)


@pytest.mark.parametrize(
    ("number", "remedy"),
    [("ENOSPC", "fs.epoll.max_user_watches"), ("ENOMEM", "give the container more memory")],
)
@pytest.mark.parametrize("way", ["ordinary"], indirect=True)
def test_where_no_descriptor_can_be_watched_any_more_the_ranks_are_told_to_stop_and_it_is_69(
    bad_day, number, remedy
):
    """From some call on, while the ranks run: each of their chunks is waited for with one."""
    strace = program("strace", "strace")
    inject = f"inject=epoll_ctl:error={number}:when=300+"
    quick = ("--seccomp-bpf", "-f", "-qq", "-o", os.devnull)
    before = (strace, *quick, "-e", "trace=epoll_ctl", "-e", inject)
    job = bad_day("--standalone", "2", *SAVES, before=before)
    assert job.end() == 69
    last = job.events[-1]
    assert "no further descriptor can be watched (epoll_ctl: " in last["root_cause"]
    assert remedy in last["root_cause"]
    assert not job.all("supervisor.defect")
    assert [end["status"] for end in job.all("process.exited")] == [0, 0]


SLOW_SETSID = """#!/bin/sh
{setsid} "$@"
exec sleep 600
"""


@pytest.mark.parametrize("way", ["ordinary"], indirect=True)
def test_a_guardian_that_could_not_be_waited_for_kills_nobody(bad_day, place):
    """As on a machine that stood still for some seconds: it runs, and we do not know it."""
    slow = place / "bin" / "setsid"
    slow.parent.mkdir()
    slow.write_text(SLOW_SETSID.format(setsid=shutil.which("setsid")))
    slow.chmod(0o755)
    path = f"{slow.parent}:{os.environ['PATH']}"
    job = bad_day(
        "--standalone", "2", *python("import time; time.sleep(1)"), environ={"PATH": path}
    )
    assert job.end() == 0
    assert job.guardians == []
