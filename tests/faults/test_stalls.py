"""Training that stands still, in whole jobs: the usual limit of a minute, by a clock that is fast.

The supervisor sees a clock that is FAST times as fast as ours, so that the minute takes 3 s.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ascend_supervisor.control.protocol import AskStatus
from ascend_supervisor.control.status_answer import LiveStatus
from ascend_supervisor.ctl.seen import ask
from ascend_supervisor.reporters.status_document import as_json
from tests.ctl.calling import ctl
from tests.running import DEADLINE_SECONDS, Running, python

FAST = 20
LIMIT = 60.0
NOISE = 20.0
"""Seconds of the fast clock that a busy machine may take for anything: 1 s of ours."""
STEPS, STANDS_AT = 40, 32
"""A busy machine sees several at once, and a limit is learnt from ten looks."""

pytestmark = [
    # It is the same code for all users.
    pytest.mark.parametrize("way", ["ordinary"], indirect=True),
]

RANK = f"""
import os, time
generation = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
for step in range(1, {STEPS + 1}) if generation == 0 else range({STANDS_AT - 3}, {STEPS + 1}):
    time.sleep(0.1)
    line = f" iteration {{step:8d}}/{STEPS:8d} | consumed samples: 16 | lm loss: 2.382640E+00 |"
    os.write(1, f"{{line}}\\n".encode())
    if generation == 0 and step == {STANDS_AT}:
        open("go").close()
"""
"""It stands still, asleep in one call, until somebody writes to the FIFO ``go``."""


@pytest.fixture
def fast(bad_day, place) -> Callable[..., Running]:
    """``fast(*options)``: a job that stands still once."""
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    if not found:
        pytest.skip("libfaketime is missing (Debian's package libfaketime)")
    os.mkfifo(place / "go")
    clock = {"LD_PRELOAD": str(found[0]), "FAKETIME": f"+0 x{FAST}", "NO_FAKE_STAT": "1"}

    def start(*options: str) -> Running:
        dashes, *command = python(RANK)
        words = (dashes, "env", "-u", "LD_PRELOAD", *command)
        job: Running = bad_day("--standalone", "1", *options, *words, environ=clock)
        return job

    return start


def test_a_hang_by_the_steps_ends_the_generation_and_is_in_the_account(fast):
    options = ("--restarts", "1", "--restart-delay", "0", "--release-delay", "0")
    job = fast("--hang-timeout", "auto", *options)
    assert job.end() == 0
    (hang,) = job.all("hang.noticed")
    assert (hang["source"], hang["limit_seconds"], hang["ranks"]) == ("steps", LIMIT, [0])
    assert LIMIT <= hang["silent_seconds"] < LIMIT + NOISE
    hung, done = job.all("generation.ended")
    assert (hung["outcome"], hung["step"]) == ("fault", STANDS_AT)
    assert (done["outcome"], done["step"]) == ("completed", STEPS)
    assert job.all("training.stalled") == []
    end = job.events[-1]
    assert LIMIT <= end["account"]["stalled"] < 2 * LIMIT  # also while the machine was busy
    assert "standing still" in end["msg"]
    assert "(1 restart, 1 hang)" in end["msg"]


def test_a_stall_is_told_and_ends_nothing(fast, place):
    job = fast()
    stalled = job.wait_for("training.stalled")
    (place / "go").write_text("")
    assert job.end() == 0
    assert len(job.all("training.stalled")) == 1
    assert (stalled["step"], stalled["limit_seconds"]) == (STANDS_AT, LIMIT)
    assert LIMIT <= stalled["silent_seconds"] < LIMIT + NOISE
    assert "rank 0 waits in <string>:" in stalled["msg"]
    (resumed,) = job.all("training.resumed")
    assert resumed["step"] == STANDS_AT + 1
    assert resumed["silent_seconds"] >= LIMIT
    assert resumed["limit_seconds"] == pytest.approx(5 * resumed["silent_seconds"], abs=0.01)
    assert job.all("hang.noticed") == []
    assert job.events[-1]["account"]["stalled"] == 0.0
    assert job.events[-1]["account"]["training"] > LIMIT


def test_status_and_report_of_a_running_job_say_that_it_stands_still(fast, place):
    job = fast("--state-file", str(place / "state"))
    job.wait_for("training.stalled")
    time.sleep(3 * LIMIT / FAST)
    state = ("--state-file", str(place / "state"))
    (place / "state").touch()  # by the fast clock the supervisor's own file may be late
    answer = ask(place / "state", AskStatus(), LiveStatus, DEADLINE_SECONDS)
    assert isinstance(answer, LiveStatus), answer
    (place / "state").write_bytes(as_json(answer.status))
    found = ctl("status", "--json", *state)
    assert not found.stderr
    known = json.loads(found.stdout)["progress"]
    assert (known["stalled_step"], known["hangs"]) == (STANDS_AT, 0)
    assert known["account"]["stalled"] >= 3 * LIMIT
    told = ctl("status", *state).stdout
    (training,) = (line for line in told.splitlines() if line.startswith("training"))
    stands = f"stands still: no step after step {STANDS_AT} since"
    assert f"{stands} {known['stalled_since']}" in training
    assert "rank 0 waits in <string>:" in training
    assert "% standing still" in training
    assert " left" not in training
    report = ctl("report", "--text", *state).stdout
    assert f"it {stands} " in report
    assert f"to step {STANDS_AT} of {STEPS}" in report
    assert "was killed" not in report
    (place / "go").write_text("")
    job.wait_for("training.resumed")
    assert job.end() == 0


def test_a_stall_that_an_operator_ends_is_no_hang(fast):
    job = fast()
    job.wait_for("training.stalled")
    job.process.send_signal(signal.SIGTERM)
    assert job.end() == 143
    assert job.all("hang.noticed") == []
    assert job.events[-1]["account"]["stalled"] >= LIMIT
    assert "standing still" in job.events[-1]["msg"]
    assert " hang" not in job.events[-1]["msg"]


def test_a_stall_is_not_told_with_stall_notice_off(fast, place):
    job = fast("--stall-notice", "off")
    job.wait_for("training.started")
    time.sleep(1.5 * LIMIT / FAST)
    (place / "go").write_text("")
    assert job.end() == 0
    assert [event["event"] for event in job.events if "stall" in event["event"]] == []
    assert job.all("training.resumed") == []
