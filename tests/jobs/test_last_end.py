"""The end of a job as its controller sees it: which exit code, and which server ends last."""

from __future__ import annotations

import json
import signal
from datetime import datetime

import pytest

from tests.cluster.test_operator import PYTORCH
from tests.running import Event, Running, python, wait_until

FIRST = {**PYTORCH, "RANK": "0"}
SECOND = {**PYTORCH, "RANK": "1"}
"""Pods of a job of three."""
CRASH = "import os; os._exit(7)"
HANG = "import time; time.sleep(600)"
RETRYABLE = ("--retryable-exit-code", "200")


def state(job: Running) -> Event:
    (path,) = job.log_dir.glob("*-supervisor-*.json")
    found: Event = json.loads(path.read_text())
    return found


def moment(event: Event) -> datetime:
    return datetime.fromisoformat(event["ts"].replace("Z", "+00:00"))


@pytest.mark.parametrize(
    ("options", "source", "own"),
    [
        ((), CRASH, 7),
        ((), "import os; os.kill(os.getpid(), 9)", 137),
        ((), "import sys; sys.exit(64)", 64),
        (("--hang-timeout", "0.5"), HANG, 124),
        (("--restarts", "1", "--restart-delay", "0", "--min-uptime", "0"), CRASH, 7),
    ],
    ids=["a status", "a signal", "a status like one of ours", "a hang", "no restart is left"],
)
def test_a_failure_that_may_pass_has_the_code_that_was_asked_for(supervised, options, source, own):
    job = supervised("--standalone", "1", *RETRYABLE, *options, *python(source))
    assert job.end() == 200
    last = job.events[-1]
    assert (last["exit_code"], last["own_exit_code"]) == (200, own)
    assert f"; ending with exit code 200 in place of {own} (--retryable-exit-code)" in last["msg"]
    assert state(job)["exit_code"] == 200


@pytest.mark.parametrize(
    ("options", "words", "code"),
    [
        ((), python("pass"), 0),
        ((), python("import os; os._exit(127)"), 127),
        (("--no-restart-on", "7"), python(CRASH), 7),
        (
            ("--restarts", "9", "--restart-delay", "0", "--min-uptime", "600"),
            python(CRASH),
            7,
        ),
        ((), ["--", "no-such-program"], 127),
        ((), ["--", "/dev/null"], 126),
        (("--grace", "ten"), python("pass"), 64),
    ],
    ids=["success", "never retried", "as asked", "three times", "127", "126", "64"],
)
def test_what_would_end_the_same_way_again_keeps_its_code(supervised, options, words, code):
    job = supervised("--standalone", "1", *RETRYABLE, *options, *words)
    assert job.end() == code
    assert job.events[-1]["own_exit_code"] is None


def test_a_wrong_table_keeps_its_code(supervised, tmp_path):
    table = tmp_path / "table.json"
    table.write_text('{"status":"completed","version":"1.0","server_list":"none"}')
    job = supervised("--rank-table", str(table), *RETRYABLE, *python("pass"))
    assert job.end() == 65


@pytest.mark.parametrize("check", [(), ("--check",)])
def test_a_table_that_does_not_come_may_come_at_the_next_start(supervised, tmp_path, check):
    options = ("--rank-table", str(tmp_path / "none.json"), "--rank-table-timeout", "0.1")
    job = supervised(*check, *options, *RETRYABLE, *python("pass"))
    assert job.end() == 200
    assert job.events[-1]["own_exit_code"] == 75


def test_a_signal_keeps_its_code(supervised):
    job = supervised("--standalone", "1", *RETRYABLE, *python(HANG))
    job.wait_for("process.started")
    job.send(signal.SIGTERM)
    assert job.end() == 143


def test_the_first_server_ends_last_and_has_told_everything_before(supervised, tmp_path):
    log = tmp_path / "termination-log"
    options = ("--exit-linger", "600", "--termination-log", str(log))
    job = supervised(*options, *RETRYABLE, *python(CRASH), environ=FIRST)
    told = job.wait_for("exit.lingering")
    assert (told["exit_code"], told["own_exit_code"], told["delay_seconds"]) == (200, 7, 600.0)
    assert " failed first, in generation 0: " in told["root_cause"]
    assert told["level"] == "error"
    wait_until_it_says(job, "stopping", told["root_cause"])
    assert log.read_text() == told["root_cause"] + "\n"
    assert job.process.poll() is None
    job.send(signal.SIGTERM)
    assert job.end() == 200
    last = job.events[-1]
    assert (last["event"], last["exit_code"]) == ("supervisor.exited", 200)
    assert last["root_cause"] == told["root_cause"]
    assert not job.survivors()


def wait_until_it_says(job: Running, phase: str, cause: str) -> None:
    """The state file and the termination log are written by threads of their own."""
    log = job.root / "termination-log"
    wait_until(lambda: (state(job)["phase"], state(job)["root_cause"]) == (phase, cause))
    wait_until(lambda: log.exists() and log.read_text())


def test_it_ends_by_itself_after_that_time(supervised):
    job = supervised("--exit-linger", "0.5", *python(CRASH), environ=FIRST)
    assert job.end() == 7
    waited = moment(job.events[-1]) - moment(job.all("exit.lingering")[0])
    assert waited.total_seconds() >= 0.4


@pytest.mark.parametrize(
    ("environ", "source", "code"),
    [
        (SECOND, CRASH, 7),
        (FIRST, "pass", 0),
        ({"RANK": ""}, CRASH, 7),
        (FIRST, "raise SystemExit(125)", 125),
    ],
    ids=["another server", "success", "a single server", "no retry would help"],
)
def test_nobody_else_waits_with_its_end(supervised, environ, source, code):
    alone = () if environ.get("RANK") else ("--standalone", "1")
    job = supervised("--exit-linger", "600", *alone, *python(source), environ=environ)
    assert job.end() == code
    assert not job.all("exit.lingering")


def test_a_job_that_was_told_to_stop_ends_at_once(supervised):
    job = supervised("--exit-linger", "600", *python(HANG), environ=FIRST)
    job.wait_for("process.started")
    job.send(signal.SIGTERM)
    assert job.end() == 143
    assert not job.all("exit.lingering")


def test_before_any_table_the_variables_tell_the_first_server(supervised, tmp_path):
    environ = {"MA_NUM_HOSTS": "2", "VC_TASK_INDEX": "0"}
    options = ("--rank-table", str(tmp_path / "none.json"), "--rank-table-timeout", "0.1")
    job = supervised("--exit-linger", "600", *options, *python("pass"), environ=environ)
    assert job.wait_for("exit.lingering")["exit_code"] == 75
    job.send(signal.SIGTERM)
    assert job.end() == 75


def test_one_server_of_several_says_why_it_does_not_restart_and_ends_at_once(supervised):
    job = supervised("--restarts", "3", *python(CRASH), environ=SECOND)
    assert job.end() == 7
    names = [event["event"] for event in job.events]
    ready = names.index("rank_table.ready")
    assert names[ready : ready + 3] == ["rank_table.ready", "restarts.barred", "generation.started"]
    (told,) = job.all("restarts.barred")
    assert told["level"] == "warning"
    assert "--follow-cluster" in told["remedy"]
    assert job.all("generation.started")[0]["restarts_left"] == 0
    reason = job.events[-1]["reason"]
    assert reason.endswith("; processes on other servers cannot be restarted from here")
