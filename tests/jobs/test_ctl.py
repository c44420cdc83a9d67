"""ascend-supervisorctl beside real supervisors, while they run and afterwards."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.ctl.calling import ENVIRON, PROGRAM, ctl, refused
from tests.running import DEADLINE_SECONDS, Running, python, wait_until

UP = "import time; print('up', flush=True); time.sleep(600)"


def beside(job: Running) -> dict[str, str]:
    """The environment that the supervisor's container gives to whoever enters it."""
    return {
        "MA_MOUNT_PATH": str(job.root / "modelarts"),
        "MA_VJ_NAME": "ma-job-test",
        "MA_CURRENT_INSTANCE_NAME": "job-test-0",
    }


def state_path(job: Running) -> Path:
    return job.log_dir / "modelarts-job-test-supervisor-job-test-0.json"


def until_named(job: Running, ranks: int) -> None:
    """Wait until every rank has started and the state file names them all."""

    def named() -> int:
        return len(json.loads(state_path(job).read_bytes())["ranks"])

    for rank in range(ranks):
        job.wait_for("process.started", rank=rank)
    wait_until(lambda: state_path(job).exists() and named() == ranks)


def until_running(job: Running, ranks: int) -> None:
    """Wait until every rank has spoken, too."""
    for rank in range(ranks):
        job.wait_for("output", rank=rank)
    until_named(job, ranks)


class Following:
    """``logs -f``, whose lines are waited for."""

    def __init__(self, *arguments: str, environ: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            [*PROGRAM, "logs", "-f", *arguments],
            env={**ENVIRON, **environ},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout
        self.stdout = self.process.stdout
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def line(self) -> str:
        """The next line; empty at the end."""
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

    def start(*arguments: str, environ: Mapping[str, str]) -> Following:
        started.append(Following(*arguments, environ=environ))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.wait()
        one.stdout.close()


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


def test_status_shows_where_a_running_job_stands(supervised):
    job = supervised("--standalone", "2", "--restarts", "3", *python(UP))
    until_running(job, 2)
    found = ctl("status", environ=beside(job))
    assert (found.returncode, found.stderr) == (0, "")
    lines = [line.split() for line in found.stdout.splitlines()]
    assert ["phase", "running", "for"] in [line[:3] for line in lines]
    assert ["generation", "0"] in lines
    assert ["restarts", "left", "3"] in lines
    pids = [event["child_pid"] for event in job.all("process.started")]
    assert [line[:4] for line in lines[-2:]] == [
        [str(rank), str(rank), str(pids[rank]), "running"] for rank in range(2)
    ]
    assert [line[-1] for line in lines[-2:]] == ["up", "up"]


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


def test_a_report_tells_the_job_while_it_runs_and_after_its_end(supervised, speech, tmp_path):
    source = (
        f"for line in open({str(tmp_path / 'speech')!r}):\n"
        "    if line: raise ValueError('shard 17 is <b>truncated</b>')"
    )
    job = supervised("--standalone", "1", *python(source))
    until_named(job, 1)
    assert "The job has run for " in ctl("report", "--text", environ=beside(job)).stdout
    speech("go on")
    assert job.end() == 1
    text = ctl("report", "--text", environ=beside(job)).stdout
    assert "rank 0 on job-test-0 failed first, in generation 0\n" in text
    assert "ValueError: shard 17 is <b>truncated</b>\n" in text
    found = ctl("report", "--language", "zh", environ=beside(job))
    assert (found.returncode, found.stderr) == (0, "")
    assert "ValueError: shard 17 is &lt;b&gt;truncated&lt;/b&gt;" in found.stdout


def test_status_says_plainly_that_the_supervisor_was_killed(supervised):
    job = supervised("--standalone", "2", *python(UP))
    until_running(job, 2)
    job.send(signal.SIGKILL)
    assert job.end() == 137
    wait_until(lambda: not job.survivors())
    found = ctl("status", environ=beside(job))
    assert found.returncode == 0
    assert "is no more" in found.stderr
    (as_of,) = [line for line in found.stdout.splitlines() if line.startswith("as of")]
    assert as_of.endswith("ago; what came later is only in the logs")
    assert [line.split()[3] for line in found.stdout.splitlines()[-2:]] == ["no", "no"]
    assert "is no more" in ctl("status", "--json", environ=beside(job)).stderr


def test_status_json_is_the_state_file_and_what_is_live(supervised):
    job = supervised("--standalone", "1", *python(UP))
    until_running(job, 1)
    found = json.loads(ctl("status", "--json", environ=beside(job)).stdout)
    live = found.pop("live")
    assert found == json.loads(state_path(job).read_bytes())
    keys = {"started_at", "phase_seconds", "ranks", "restarts", "restarts_left", "peers"}
    assert live.keys() == keys
    assert [row["last_line"] for row in live["ranks"]] == ["up"]
    job.send(signal.SIGTERM)
    assert job.end() == 143
    ended = json.loads(ctl("status", "--json", environ=beside(job)).stdout)
    assert ended == json.loads(state_path(job).read_bytes()) | {"live": None}


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


def test_logs_prints_all_ranks_labelled_or_one_raw(supervised):
    job = supervised("--standalone", "2", *python("import os; print('I am', os.environ['RANK'])"))
    assert job.end() == 0
    both = ctl("logs", environ=beside(job))
    assert (both.returncode, both.stderr) == (0, "")
    lines = both.stdout.splitlines()
    assert [line for line in lines if "I am" in line] == ["[rank 0] I am 0", "[rank 1] I am 1"]
    assert all(line.startswith(("[rank 0] ", "[rank 1] ")) for line in lines)
    assert ctl("logs", "1", environ=beside(job)).stdout == job.log(1).read_text()


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


def test_following_ends_when_the_supervisor_was_killed(supervised, following):
    job = supervised("--standalone", "1", *python(UP))
    until_running(job, 1)
    raw = following("0", environ=beside(job))
    assert raw.lines_to("up")
    job.send(signal.SIGKILL)
    assert raw.line() == ""
    assert raw.end() == 0
