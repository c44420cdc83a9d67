"""ascend-supervisorctl, as an operator types it: against real supervisors, logs and tables."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ascend_supervisor import __version__
from ascend_supervisor.processes.proc import start_time
from tests import rank_tables
from tests.rank_tables import COMPLETED, INITIALIZING, LAB, TEMPLATE_1, TWELVE_PODS
from tests.running import DEADLINE_SECONDS, Running, python
from tests.terminals import FORGED, WORDS, Screen, steering

UP = "import time; print('up', flush=True); time.sleep(600)"
MEMORY_KIB = 300_000
LARGE_BYTES = 512 * 1024 * 1024


def ctl(
    *arguments: str,
    environ: Mapping[str, str] | None = None,
    before: tuple[str, ...] = (),
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """One call; ``before`` are words before the interpreter."""
    found = subprocess.run(
        [*before, sys.executable, "-m", "ascend_supervisor.ctl", *arguments],
        env={"PATH": os.environ["PATH"], **(environ or {})},
        capture_output="stdout" not in options,
        timeout=DEADLINE_SECONDS,
        check=False,
        text=True,
        **options,
    )
    assert "Traceback" not in (found.stderr or "")
    return found


def refused(code: int, *arguments: str, **options: Any) -> str:
    """The one sentence with which the call is refused with ``code``."""
    found = ctl(*arguments, **options)
    assert (found.returncode, found.stdout) == (code, "")
    assert found.stderr.count("\n") == 1
    assert found.stderr.startswith("ascend-supervisorctl: ")
    return found.stderr


def beside(job: Running) -> dict[str, str]:
    """The environment that the supervisor's container gives to whoever enters it."""
    return {
        "MA_MOUNT_PATH": str(job.root / "modelarts"),
        "MA_VJ_NAME": "ma-job-test",
        "MA_CURRENT_INSTANCE_NAME": "job-test-0",
    }


def state_path(job: Running) -> Path:
    return job.log_dir / "modelarts-job-test-supervisor-job-test-0.json"


def eventually(ask: Callable[[], bool]) -> None:
    """Ask until it is so: the state file is written a little after the event."""
    end = time.monotonic() + DEADLINE_SECONDS
    while not ask():
        assert time.monotonic() < end


def until_named(job: Running, ranks: int) -> None:
    """Wait until every rank has started and the state file names them all."""

    def named() -> int:
        return len(json.loads(state_path(job).read_bytes())["ranks"])

    for rank in range(ranks):
        job.wait_for("process.started", rank=rank)
    eventually(lambda: state_path(job).exists() and named() == ranks)


def until_running(job: Running, ranks: int) -> None:
    """Wait until every rank has spoken, too."""
    for rank in range(ranks):
        job.wait_for("output", rank=rank)
    until_named(job, ranks)


def own_state(path: Path, **changes: Any) -> Path:
    """A state file of which this test is the supervisor, put in place at once."""
    document: dict[str, Any] = {
        "job_id": "job",
        "pod": "pod-0",
        "pid": os.getpid(),
        "start_time": start_time(os.getpid()),
        "version": "0.1.0",
        "phase": "running",
        "why": "",
        "generation": 0,
        "restarts_left": 1,
        "world_size": 1,
        "ranks": [],
        "exit_code": None,
        "root_cause": None,
    }
    written = path.with_suffix(".new")
    written.write_text(json.dumps(document | changes))
    written.replace(path)
    return path


def rank_of(log: Path, rank: int | None = 0, **changes: Any) -> dict[str, Any]:
    found = {"rank": rank, "local_rank": rank, "pid": os.getpid(), "log": str(log)}
    return found | {"status": None, "signal": None} | changes


class Following:
    """``logs -f``, whose lines are waited for."""

    def __init__(self, *arguments: str, environ: Mapping[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ascend_supervisor.ctl", "logs", "-f", *arguments],
            env={"PATH": os.environ["PATH"], **(environ or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout
        assert self.process.stderr
        self.stdout, self.stderr = self.process.stdout, self.process.stderr
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader: threading.Thread | None = None

    def line(self) -> str:
        """The next line; empty at the end."""
        if self._reader is None:
            self._reader = threading.Thread(target=self._read, daemon=True)
            self._reader.start()
        return self._lines.get(timeout=DEADLINE_SECONDS).rstrip("\n")

    def lines_to(self, last: str) -> list[str]:
        lines = [self.line()]
        while lines[-1] != last:
            assert lines[-1], f"no line {last!r} in {lines}"
            lines.append(self.line())
        return lines

    def end(self) -> int:
        return self.process.wait(DEADLINE_SECONDS)

    def _read(self) -> None:
        while line := self.stdout.readline():
            self._lines.put(line)
        self._lines.put("")


@pytest.fixture
def following() -> Iterator[Callable[..., Following]]:
    started: list[Following] = []

    def start(*arguments: str, **options: Any) -> Following:
        started.append(Following(*arguments, **options))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.wait()
        one.stdout.close()
        one.stderr.close()


@pytest.fixture
def speech(tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """Makes the ranks of ECHO say something: a pipe with a name, of which they read lines."""
    os.mkfifo(tmp_path / "speech")
    pipe = os.open(tmp_path / "speech", os.O_RDWR)

    def say(text: str) -> None:
        os.write(pipe, f"{text}\n".encode())

    yield say
    os.close(pipe)


def echo(tmp_path: Path) -> list[str]:
    """The command of a rank that says what ``speech`` is given, and ends after ``end``."""
    source = (
        f"for line in open({str(tmp_path / 'speech')!r}):\n"
        "    print(line, end='', flush=True)\n"
        "    if line == 'end\\n': break"
    )
    return python(source)


# status


def test_status_shows_where_a_running_job_stands(supervised):
    job = supervised("--standalone", "2", "--restarts", "3", *python(UP))
    until_running(job, 2)
    found = ctl("status", environ=beside(job))
    assert (found.returncode, found.stderr) == (0, "")
    lines = [line.split() for line in found.stdout.splitlines()]
    assert ["phase", "running"] in lines
    assert ["generation", "0"] in lines
    assert ["restarts", "left", "3"] in lines
    pids = [event["child_pid"] for event in job.all("process.started")]
    assert lines[-2:] == [
        [str(rank), str(rank), str(pids[rank]), "yes", "-", str(job.log(rank))] for rank in range(2)
    ]


def test_status_shows_how_and_why_a_job_ended(supervised):
    source = "import os, time; os.environ['RANK'] == '1' and os._exit(7)\ntime.sleep(600)"
    job = supervised("--standalone", "2", *python(source))
    assert job.end() == 7
    found = ctl("status", environ=beside(job))
    assert (found.returncode, found.stderr) == (0, "")
    assert "exit code      7\n" in found.stdout
    assert "root cause     rank 1 failed first" in found.stdout
    assert [line.split()[3:5] for line in found.stdout.splitlines()[-2:]] == [
        ["no", "SIGTERM"],
        ["no", "7"],
    ]


def test_status_says_plainly_that_the_supervisor_was_killed(supervised):
    job = supervised("--standalone", "2", *python(UP))
    until_running(job, 2)
    job.send(signal.SIGKILL)
    assert job.end() == 137
    eventually(lambda: not job.survivors())
    found = ctl("status", environ=beside(job))
    assert found.returncode == 0
    assert "is no more" in found.stderr
    assert [line.split()[3] for line in found.stdout.splitlines()[-2:]] == ["no", "no"]
    assert "is no more" in ctl("status", "--json", environ=beside(job)).stderr


def test_status_json_is_the_state_file_as_it_is(supervised):
    job = supervised("--standalone", "1", *python("pass"))
    assert job.end() == 0
    found = ctl("status", "--json", environ=beside(job))
    assert found.stdout.encode().rstrip() == state_path(job).read_bytes().rstrip()


def test_a_pid_that_another_process_has_by_now_is_no_supervisor(tmp_path):
    path = own_state(tmp_path / "state", start_time=1)
    assert "is no more" in ctl("status", "--state-file", str(path)).stderr


def test_what_would_steer_the_terminal_is_shown_and_not_sent(tmp_path):
    path = own_state(tmp_path / "state", why="\x1b[2J", job_id="\x9b", root_cause="a\nb\r")
    found = ctl("status", "--state-file", str(path))
    assert found.returncode == 0
    assert not set(found.stdout) & set("\x1b\x9b\r")


# health


def test_health_is_0_while_the_supervisor_lives_and_1_when_it_was_killed(supervised):
    job = supervised("--standalone", "1", *python(UP))
    until_running(job, 1)
    found = ctl("health", environ=beside(job))
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")
    job.send(signal.SIGKILL)
    job.end()
    assert "is no more" in refused(1, "health", environ=beside(job))


@pytest.mark.parametrize(("code", "health"), [(0, 0), (9, 1)])
def test_the_health_of_a_job_that_has_ended_is_whether_it_succeeded(supervised, code, health):
    job = supervised("--standalone", "1", *python(f"raise SystemExit({code})"))
    assert job.end() == code
    found = ctl("health", environ=beside(job))
    assert found.returncode == health
    assert not health or "has ended with 9: rank 0 failed first" in found.stderr


def test_a_supervisor_that_is_not_reaped_yet_is_no_more(tmp_path):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        path = own_state(tmp_path / "state", pid=process.pid, start_time=start_time(process.pid))
        assert ctl("health", "--state-file", str(path)).returncode == 0
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert "is no more" in refused(1, "health", "--state-file", str(path))


@pytest.mark.parametrize("named", [True, False])
def test_health_imports_no_event_loop(tmp_path, named):
    path = own_state(tmp_path / "job-supervisor-pod-0.json")
    environ = {"ASCEND_SUPERVISOR_LOG_DIR": str(tmp_path)}
    found = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "ascend_supervisor.ctl", "health"],
        env=environ | ({"ASCEND_SUPERVISOR_STATE_FILE": str(path)} if named else {}),
        capture_output=True,
        timeout=DEADLINE_SECONDS,
        check=False,
        text=True,
    )
    assert found.returncode == 0
    imported = {line.rpartition("|")[2].strip().split(".")[0] for line in found.stderr.splitlines()}
    assert "ascend_supervisor" in imported
    assert not imported & {"anyio", "asyncio", "structlog", "watchfiles", "socket"}


def test_a_probe_that_cannot_know_fails_with_1_even_where_others_give_64():
    environ = {"JOB_ID": "../elsewhere"}
    assert "JOB_ID" in refused(1, "health", environ=environ)
    assert "JOB_ID" in refused(64, "status", environ=environ)


# Which state file


def test_an_option_wins_over_the_variable_which_wins_over_the_default(tmp_path):
    for name in ("option", "variable", "job-supervisor-pod-0.json"):
        own_state(tmp_path / name, job_id=f"of-{name}")
    environ = {"ASCEND_SUPERVISOR_LOG_DIR": str(tmp_path), "POD_NAME": "pod-0"}
    assert "of-job-supervisor" in ctl("status", environ=environ).stdout
    environ["ASCEND_SUPERVISOR_STATE_FILE"] = str(tmp_path / "variable")
    assert "of-variable" in ctl("status", environ=environ).stdout
    told = ("--state-file", str(tmp_path / "option"))
    assert "of-option" in ctl("status", *told, environ=environ).stdout


@pytest.mark.parametrize("key", ["log_dir", "state_file"])
def test_the_configuration_file_of_the_environment_counts(tmp_path, key):
    path = own_state(tmp_path / "job-supervisor-pod-0.json", job_id="configured")
    value = path if key == "state_file" else tmp_path
    (tmp_path / "toml").write_text(f"{key} = {json.dumps(str(value))}")
    environ = {"ASCEND_SUPERVISOR_CONFIG": str(tmp_path / "toml"), "POD_NAME": "pod-0"}
    assert "configured" in ctl("status", environ=environ).stdout


def test_the_only_state_file_of_the_log_directory_will_do(tmp_path):
    own_state(tmp_path / "other-supervisor-pod-9.json", job_id="the-only-one")
    environ = {"ASCEND_SUPERVISOR_LOG_DIR": str(tmp_path), "POD_NAME": "pod-0"}
    assert "the-only-one" in ctl("status", environ=environ).stdout


def test_of_several_state_files_none_is_guessed(tmp_path):
    paths = [own_state(tmp_path / f"job-supervisor-pod-{number}.json") for number in range(8, 11)]
    environ = {"ASCEND_SUPERVISOR_LOG_DIR": str(tmp_path), "POD_NAME": "pod-0"}
    sentence = refused(1, "status", environ=environ)
    assert all(str(path) in sentence for path in paths)
    assert "--state-file" in sentence


@pytest.mark.parametrize("command", ["status", "health", "logs"])
def test_without_a_state_file_it_is_told_where_it_was_expected(tmp_path, command):
    environ = {"ASCEND_SUPERVISOR_LOG_DIR": str(tmp_path), "POD_NAME": "pod-0"}
    sentence = refused(1, command, environ=environ)
    assert f"{tmp_path}/job-supervisor-pod-0.json" in sentence
    assert "--state-file" in sentence


HOSTILE = {
    "nothing": b"",
    "no JSON": b"{",
    "not UTF-8": b'{"job_id": "\xff"}',
    "half a character": json.dumps({"job_id": "\ud800"}).encode(),
    "not a number": b'{"pid": NaN}',
    "nested too deep": b"[" * 100_000,
    "a list": b"[]",
    "a text": b'"state"',
    "an empty object": b"{}",
    "larger than any": b" " * (16 * 1024 * 1024 + 1),
}
MISFITS: dict[str, Any] = {
    "pid": [None, -1, "x", 2**80, 1.5, True, []],
    "start_time": ["x", {}, False],
    "phase": ["dancing", None, 7],
    "why": [None, []],
    "pod": [{}],
    "ranks": [None, {}, "0", [None], [[]], [{}], [{"rank": "x", "pid": 1, "log": ""}]],
    "exit_code": ["x"],
    "root_cause": [[]],
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_is_no_state_file_is_refused_in_a_sentence(tmp_path, content):
    path = tmp_path / "state"
    path.write_bytes(content)
    for command in (["status"], ["status", "--json"], ["health"], ["logs"], ["logs", "-f", "0"]):
        assert str(path) in refused(1, *command, "--state-file", str(path))


@pytest.mark.parametrize("key", MISFITS)
def test_a_state_file_with_wrong_types_is_refused_by_its_path(tmp_path, key):
    for value in MISFITS[key]:
        path = own_state(tmp_path / "state", **{key: value})
        assert f"$.{key}" in refused(1, "status", "--state-file", str(path))
        assert f"$.{key}" in refused(1, "health", "--state-file", str(path))


@pytest.mark.parametrize(("make", "found"), [(os.mkdir, "directory"), (os.mkfifo, "not a regular")])
def test_a_state_file_that_is_no_file_is_refused_without_waiting(tmp_path, make, found):
    make(tmp_path / "state")
    assert found in refused(1, "status", "--state-file", str(tmp_path / "state"))


# logs


def test_logs_prints_all_ranks_labelled_or_one_raw(supervised):
    job = supervised("--standalone", "2", *python("import os; print('I am', os.environ['RANK'])"))
    assert job.end() == 0
    both = ctl("logs", environ=beside(job))
    assert (both.returncode, both.stderr) == (0, "")
    lines = both.stdout.splitlines()
    assert [line for line in lines if "I am" in line] == ["[rank 0] I am 0", "[rank 1] I am 1"]
    assert all(line.startswith(("[rank 0] ", "[rank 1] ")) for line in lines)
    assert ctl("logs", "1", environ=beside(job)).stdout == job.log(1).read_text()


def test_logs_of_a_rank_that_is_not_here_names_those_that_are(tmp_path):
    ranks = [rank_of(tmp_path / "log", rank) for rank in (8, 9, 10, 12)]
    path = own_state(tmp_path / "state", ranks=ranks)
    assert "8-10,12" in refused(1, "logs", "0", "--state-file", str(path))


def test_logs_before_any_rank_has_started_says_why_there_are_none(tmp_path):
    path = own_state(tmp_path / "state", phase="waiting", why="waiting for the table")
    assert "waiting for the table" in refused(1, "logs", "--state-file", str(path))


@pytest.mark.parametrize("make", [lambda _: None, os.mkdir, os.mkfifo])
def test_a_log_that_cannot_be_read_is_told_and_does_not_hide_the_others(tmp_path, make):
    make(tmp_path / "bad")
    (tmp_path / "good").write_text("fine, without an end")
    ranks = [rank_of(tmp_path / "bad", 0), rank_of(tmp_path / "good", None)]
    path = own_state(tmp_path / "state", ranks=ranks)
    found = ctl("logs", "--state-file", str(path))
    assert (found.returncode, found.stdout) == (1, "[good] fine, without an end\n")
    assert str(tmp_path / "bad") in found.stderr


@pytest.mark.parametrize("rank", [[], ["0"]])
def test_a_log_larger_than_the_memory_is_printed(tmp_path, rank):
    with (tmp_path / "log").open("wb") as log:
        log.truncate(LARGE_BYTES)
    path = own_state(tmp_path / "state", ranks=[rank_of(tmp_path / "log")])
    limit = ("sh", "-c", f'ulimit -v {MEMORY_KIB}; exec "$@"', "sh")
    with Path(os.devnull).open("wb") as nowhere:
        arguments = ("logs", *rank, "--state-file", str(path))
        assert ctl(*arguments, before=limit, stdout=nowhere).returncode == 0


def test_following_gives_what_comes_and_ends_with_the_job(supervised, following, speech, tmp_path):
    job = supervised("--standalone", "1", *echo(tmp_path))
    until_named(job, 1)
    raw = following("0", environ=beside(job))
    labelled = following(environ=beside(job))
    speech("one")
    assert raw.lines_to("one")
    assert labelled.lines_to("[rank 0] one")
    speech("two")
    assert (raw.line(), labelled.line()) == ("two", "[rank 0] two")
    speech("end")
    assert (raw.line(), labelled.line()) == ("end", "[rank 0] end")
    assert (raw.line(), labelled.line()) == ("", "")
    assert (raw.end(), labelled.end(), job.end()) == (0, 0, 0)


def test_following_goes_on_over_restarts_of_the_group(supervised, following):
    source = (
        "import os; life = os.environ['TORCHELASTIC_RESTART_COUNT']\n"
        "print('life', life); raise SystemExit(life == '0')"
    )
    job = supervised(
        "--standalone", "1", "--restarts", "1", "--restart-delay", "0", *python(source)
    )
    until_named(job, 1)
    assert following("0", environ=beside(job)).lines_to("life 1")[2:][::2] == ["life 0", "life 1"]


def test_following_survives_the_supervisors_rotations(supervised, following, speech, tmp_path):
    job = supervised("--standalone", "1", "--log-max-size", "4KiB", *echo(tmp_path))
    until_named(job, 1)
    raw = following("0", environ=beside(job))
    said: list[str] = []
    heard = [raw.line()]
    for batch in range(4):
        lines = [f"{batch} {number} {'x' * 100}" for number in range(50)]
        for line in lines:
            speech(line)
        said += lines
        heard += raw.lines_to(lines[-1])
    assert [line for line in heard if not line.startswith("[ascend_supervisor]")] == said
    job.wait_for("log.rotated")
    speech("end")
    assert raw.lines_to("end")
    assert raw.line() == ""
    assert raw.end() == 0


def test_files_that_were_rotated_between_two_looks_are_all_given_in_order(tmp_path, following):
    log = tmp_path / "log"
    log.write_text("first\n")
    path = own_state(tmp_path / "state", ranks=[rank_of(log)])
    raw = following("0", "--state-file", str(path))
    assert raw.line() == "first"
    with log.open("a") as old:
        old.write("last of the old\n")
    for text in ("second", "third", "fourth"):
        for number in (3, 2, 1):
            older, newer = tmp_path / f"log.{number}", tmp_path / f"log.{number - 1}"
            newer = log if number == 1 else newer
            if newer.exists():
                newer.replace(older)
        log.write_text(f"{text}\n")
    assert [raw.line() for _ in range(4)] == ["last of the old", "second", "third", "fourth"]
    own_state(path, ranks=[rank_of(log)], phase="ended", exit_code=0)
    assert raw.line() == ""
    assert raw.end() == 0


def test_a_new_file_counts_only_when_its_writer_has_come_to_it(tmp_path, following):
    log = tmp_path / "log"
    with log.open("w", buffering=1) as old:
        old.write("first\n")
        path = own_state(tmp_path / "state", ranks=[rank_of(log)])
        raw = following("0", "--state-file", str(path))
        assert raw.line() == "first"
        log.rename(tmp_path / "log-20260101")
        log.touch()
        old.write("still in the old\n")
        assert raw.line() == "still in the old"
        log.write_text("in the new\n")
        assert raw.line() == "in the new"


def test_a_log_that_is_truncated_in_place_is_read_from_its_new_beginning(tmp_path, following):
    log = tmp_path / "log"
    log.write_text("a long line before\n")
    path = own_state(tmp_path / "state", ranks=[rank_of(log)])
    raw = following("0", "--state-file", str(path))
    assert raw.line() == "a long line before"
    log.write_text("after\n")
    assert raw.line() == "after"


def test_following_waits_for_a_rank_that_has_not_started(tmp_path, following):
    log = tmp_path / "log"
    path = own_state(tmp_path / "state", phase="waiting", why="no table yet")
    raw = following("0", "--state-file", str(path))
    assert "no table yet; waiting for it" in raw.stderr.readline()
    own_state(path, ranks=[rank_of(log)])
    log.write_text("here\n")
    assert raw.line() == "here"


def test_following_a_rank_that_never_was_ends_with_1(tmp_path, following):
    path = own_state(tmp_path / "state", ranks=[rank_of(tmp_path / "log")])
    raw = following("5", "--state-file", str(path))
    assert "rank 5" in raw.stderr.readline()
    own_state(path, ranks=[rank_of(tmp_path / "log")], phase="ended", exit_code=0)
    assert raw.end() == 1


def test_following_ends_when_the_supervisor_was_killed(supervised, following):
    job = supervised("--standalone", "1", *python(UP))
    until_running(job, 1)
    raw = following("0", environ=beside(job))
    assert raw.lines_to("up")
    job.send(signal.SIGKILL)
    assert raw.line() == ""
    assert raw.end() == 0


def test_following_outlives_a_state_file_that_is_gone(tmp_path, following):
    log = tmp_path / "log"
    log.write_text("one\n")
    path = own_state(tmp_path / "state", ranks=[rank_of(log)])
    raw = following("0", "--state-file", str(path))
    assert raw.line() == "one"
    path.unlink()
    with log.open("a") as more:
        more.write("two\n")
    assert raw.line() == "two"


def test_following_ends_quietly_when_nobody_reads_even_if_nothing_comes(tmp_path, following):
    (tmp_path / "log").write_text("one\n")
    path = own_state(tmp_path / "state", ranks=[rank_of(tmp_path / "log")])
    raw = following("--state-file", str(path))
    assert raw.stdout.readline() == "[rank 0] one\n"
    raw.stdout.close()
    assert raw.end() == -signal.SIGPIPE
    assert raw.stderr.read() == ""


def test_following_ends_quietly_on_ctrl_c(tmp_path, following):
    (tmp_path / "log").write_text("one\n")
    path = own_state(tmp_path / "state", ranks=[rank_of(tmp_path / "log")])
    raw = following("--state-file", str(path))
    assert raw.line() == "[rank 0] one"
    raw.process.send_signal(signal.SIGINT)
    assert raw.end() == -signal.SIGINT
    assert raw.stderr.read() == ""


# What a rank wrote to steer the terminal, or to forge lines

COLOURED = "\x1b[31mred\x1b[0m"


def steered(tmp_path: Path) -> Path:
    """A state file whose rank has tried; its log is below ``tmp_path``."""
    text = "\n".join([COLOURED, *WORDS, FORGED])
    (tmp_path / "log").write_text(text + "\n", newline="")
    cause = f"rank 0 failed first\nit raised: x\n{text}"
    return own_state(
        tmp_path / "state", ranks=[rank_of(tmp_path / "log")], root_cause=cause, why=text
    )


def printed(path: Path, *words: str, stdout: int = subprocess.PIPE) -> str:
    found = subprocess.run(
        [sys.executable, "-m", "ascend_supervisor.ctl", *words, "--state-file", str(path)],
        env={"PATH": os.environ["PATH"]},
        stdout=stdout,
        timeout=DEADLINE_SECONDS,
        check=True,
    )
    return (found.stdout or b"").decode()


def on_screen(path: Path, *words: str) -> str:
    screen = Screen()
    printed(path, *words, stdout=screen.stdout)
    return screen.text()


def test_logs_of_all_ranks_steer_no_terminal_and_forge_no_line(tmp_path):
    path = steered(tmp_path)
    text = printed(path, "logs")
    assert not steering(text)
    assert "\x1b" not in text
    assert all(line.startswith("[rank 0] ") for line in text.split("\n")[:-1])
    assert text.count(FORGED) == "\n".join([*WORDS, FORGED]).count(FORGED)


@pytest.mark.parametrize("rank", [[], ["0"]])
def test_on_a_terminal_only_colours_survive(tmp_path, rank):
    text = on_screen(steered(tmp_path), "logs", *rank)
    assert not steering(text)
    assert COLOURED in text
    assert FORGED in text


def test_a_terminal_that_follows_one_rank_is_not_steered_either(tmp_path):
    path = steered(tmp_path)
    own_state(path, ranks=[rank_of(tmp_path / "log")], phase="ended", exit_code=0)
    text = on_screen(path, "logs", "-f", "0")
    assert not steering(text)
    assert COLOURED in text


def test_the_log_of_one_rank_is_raw_where_stdout_is_no_terminal(tmp_path):
    path = steered(tmp_path)
    assert printed(path, "logs", "0") == (tmp_path / "log").read_bytes().decode()


def test_status_steers_no_terminal_and_shows_a_ranks_lines_indented(tmp_path):
    text = on_screen(steered(tmp_path), "status")
    assert not steering(text)
    assert "\x1b" not in text
    assert FORGED in text
    assert not [line for line in text.splitlines() if line.startswith(FORGED)]


# Rank tables


def file_of(tmp_path: Path, name: str) -> str:
    path = tmp_path / f"{name}.json"
    path.write_bytes(rank_tables.data(name))
    return str(path)


@pytest.mark.parametrize("name", COMPLETED)
def test_check_table_tells_what_the_table_says(tmp_path, name):
    found = ctl("check-table", file_of(tmp_path, name))
    assert (found.returncode, found.stderr) == (0, "")
    table = rank_tables.table(name)
    assert f"format      {table.format.value}\n" in found.stdout
    assert f"world size  {table.world_size}\n" in found.stdout
    assert f"servers     {table.servers}\n" in found.stdout
    rows = found.stdout.partition("NODE RANK")[2].splitlines()[1:]
    assert len(rows) == len(table.entries)
    assert all(entry.label in rows[at] for at, entry in enumerate(table.entries) if entry.server_id)


def many_servers(servers: int) -> bytes:
    devices = [
        {"device_id": "0", "device_ip": f"10.1.0.{n}", "rank_id": str(n)} for n in range(servers)
    ]
    listed = [{"server_id": f"10.0.0.{n}", "device": [device]} for n, device in enumerate(devices)]
    head = {"status": "completed", "version": "1.0", "server_count": str(servers)}
    return json.dumps(head | {"server_list": listed}).encode()


def test_check_table_shows_twenty_entries_and_counts_the_others(tmp_path):
    (tmp_path / "table").write_bytes(many_servers(23))
    lines = ctl("check-table", str(tmp_path / "table")).stdout.splitlines()
    assert lines[-2].split()[:2] == ["19", "10.0.0.19"]
    assert lines[-1] == "and 3 more"


def test_a_table_may_come_over_stdin():
    table = rank_tables.data(TWELVE_PODS).decode()
    assert "template 2" in ctl("check-table", "-", input=table).stdout


@pytest.mark.parametrize("command", ["check-table", "convert"])
def test_a_table_that_is_not_completed_gives_75(tmp_path, command):
    path = file_of(tmp_path, INITIALIZING)
    assert f"{path} is not ready: status is 'initializing'" in refused(75, command, path)
    assert "on stdin is not ready" in refused(75, command, "-", input="")


@pytest.mark.parametrize("command", ["check-table", "convert"])
def test_a_table_that_is_wrong_gives_65_and_the_place(tmp_path, command):
    wrong = rank_tables.document(TEMPLATE_1)
    del wrong["server_list"][1]["device"][2]["rank_id"]
    path = tmp_path / "table"
    path.write_text(json.dumps(wrong))
    assert f"{path}: $.server_list[1].device[2]: " in refused(65, command, str(path))


@pytest.mark.parametrize("command", ["check-table", "convert"])
def test_a_table_that_cannot_be_read_gives_64(tmp_path, command):
    assert "No such file" in refused(64, command, str(tmp_path / "none"))
    assert "directory" in refused(64, command, str(tmp_path))


@pytest.mark.parametrize("name", COMPLETED)
def test_convert_gives_what_the_ranks_are_handed(tmp_path, name):
    path = file_of(tmp_path, name)
    document = rank_tables.table(name).document
    assert ctl("convert", path).stdout.encode() == document
    for target in (tmp_path / "made" / "new", Path(path)):
        found = ctl("convert", path, "-o", str(target))
        assert (found.returncode, found.stdout, found.stderr) == (0, "", "")
        assert target.read_bytes() == document
        assert target.stat().st_mode & 0o777 == 0o644


def test_convert_replaces_what_a_link_leads_to(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    assert ctl("convert", file_of(tmp_path, LAB), "-o", str(tmp_path / "link")).returncode == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == rank_tables.table(LAB).document


def test_an_output_that_cannot_be_written_gives_73_and_is_left_alone(tmp_path):
    table = file_of(tmp_path, LAB)
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "out").symlink_to("/dev/stdout")
    targets = ["/proc/none", table + "/below", str(tmp_path), str(tmp_path / "loop"), os.devnull]
    for target in (*targets, "/dev/stdout", "/dev/fd/1"):
        assert target in refused(73, "convert", table, "-o", target)
    assert Path(table).read_bytes() == rank_tables.data(LAB)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ["loop", "out", Path(table).name]
    )


def test_a_refused_table_leaves_the_output_as_it_was(tmp_path):
    target = tmp_path / "out"
    target.write_text("old")
    refused(75, "convert", file_of(tmp_path, INITIALIZING), "-o", str(target))
    assert target.read_text() == "old"


@pytest.mark.parametrize("command", ["check-table", "convert"])
def test_a_full_disk_under_stdout_gives_73(tmp_path, command):
    with Path("/dev/full").open("wb") as full:
        found = ctl(
            command, file_of(tmp_path, LAB), stdout=full, stderr=subprocess.PIPE, errors="strict"
        )
    assert found.returncode == 73
    assert found.stderr == (
        "ascend-supervisorctl: stdout cannot be written: No space left on device\n"
    )


# The command line


@pytest.mark.parametrize(
    ("arguments", "about"),
    [
        ((), "no command"),
        (("dance",), "dance"),
        (("status", "--jso"), "--jso"),
        (("logs", "first"), "first"),
        (("logs", "-1"), "-1"),
        (("logs", "9" * 30), "999"),
        (("check-table",), "FILE"),
        (("convert", "a", "b"), "b"),
        (("status", "--state-file"), "--state-file"),
    ],
)
def test_a_bad_command_line_gives_64(arguments, about):
    assert about in refused(64, *arguments)


def test_the_help_names_every_command_and_the_version_is_ours():
    found = ctl("--help")
    assert found.returncode == 0
    for command in ("status", "health", "check-table", "convert", "logs"):
        assert command in found.stdout
        assert ctl(command, "--help").returncode == 0
    assert ctl("--version").stdout == f"ascend-supervisorctl {__version__}\n"


def test_the_installed_program_is_the_module():
    program = Path(sys.executable).with_name("ascend-supervisorctl")
    found = subprocess.run(
        [program, "--version"], capture_output=True, timeout=DEADLINE_SECONDS, check=True
    )
    assert found.stdout.decode().split() == ["ascend-supervisorctl", __version__]
