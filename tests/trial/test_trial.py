"""A whole trial with plain ranks, as its users run it; one that fails, and one that is ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from ascend_supervisor.processes.proc import command_lines
from ascend_supervisor.trial.steps import STEPS
from tests.running import wait_until
from tests.trial.interpreters import interpreter
from tests.trial.trying import Tried, results, summary_of

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

SECRET = "hunter2-hunter2"  # noqa: S105


def test_every_step_is_made_and_told_and_nothing_is_left(tmp_path):
    secrets = {"HCCL_TOKEN": SECRET, "MY_OWN_VARIABLE": SECRET, "HCCL_BUFFSIZE": "120"}
    tried = Tried(tmp_path, interpreter(tmp_path), environ=secrets)
    code, out, err = tried.ended()
    assert (code, err) == (0, ""), out
    remark, setting, *lines, verdict, last = out.splitlines()
    assert remark.startswith("no NPU here: ran with plain Python over sockets")
    assert remark.endswith("nothing here says anything about NPUs")
    assert setting.startswith("0 NPUs, 2 ranks of kind plain; python 3.")
    assert [line[13:25].strip() for line in lines] == list(STEPS)
    assert verdict == "7 ok, 0 failed, 0 not possible; now the report is written"
    assert last == f"the report is {tried.archive}: look through it, then send it"
    files = tried.files
    summary = summary_of(files)
    assert files["summary.txt"].decode().splitlines()[4:11] == lines
    assert summary["setting"]["remark"] == remark
    figures = {one["step"]: one["figures"] for one in summary["steps"]}
    assert figures["hang"]["noticed"] >= 6.0 - 0.5
    for step in ("killed rank", "warm restart"):
        times = figures[step]
        assert 0 <= times["ended"] <= times["started"] <= times["all_reduce"]
    assert_that_events_and_logs_are_there(files)
    assert b"HCCL_BUFFSIZE=120\nHCCL_TOKEN=***\n" in files["machine/ascend-supervisorctl.env"]
    assert not [name for name, content in files.items() if SECRET.encode() in content]


def assert_that_events_and_logs_are_there(files: Mapping[str, bytes]) -> None:
    assert json.loads(files["steps/doctor/rows.json"])["verdict"] != "unfit"
    for step in [one for one in STEPS if one != "doctor"]:
        place = f"steps/{step.replace(' ', '-')}"
        assert b'"event":"supervisor.exited"' in files[f"{place}/events.jsonl"].splitlines()[-1]
        for rank in range(2):
            log = files[f"{place}/log/job-proc-rank-{rank}-device-{rank}.txt"]
            assert b"all-reduce 1: 2 ranks add up to 3\n" in log
    assert {"steps/hang/log/job-hang-0/rank-0.txt", "versions/python.txt"} <= files.keys()
    assert b"npu-smi: it is not on PATH" in files["left-out.txt"]


def test_a_step_that_fails_is_named_and_the_others_go_on(tmp_path):
    fails = '[ "${TORCHELASTIC_RESTART_COUNT:-0}" = 0 ] || { echo "no second start"; exit 3; }'
    tried = Tried(tmp_path, interpreter(tmp_path, before=fails))
    code, out, err = tried.ended()
    assert (code, err) == (1, ""), out
    summary = summary_of(tried.files)
    found = results(summary)
    assert [step for step in STEPS if found[step] == "failed"] == ["killed rank", "hang"]
    assert found["warm restart"] == "ok"  # a standby is started in the first generation
    failed = next(one for one in summary["steps"] if one["step"] == "killed rank")
    assert failed["sentence"].startswith(
        "expected training.started; the supervisor ended and said last: "
    )
    assert "exit code 3" in failed["sentence"]
    assert "no second start" in failed["sentence"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_one_that_is_told_to_end_leaves_nothing_and_keeps_what_it_has(tmp_path, number):
    tried = Tried(tmp_path, interpreter(tmp_path))
    while not tried.line().startswith("ok           start"):
        pass
    wait_until(lambda: len(tried.remains) > 3)  # the job of the next step
    tried.process.send_signal(number)
    tried.process.send_signal(number)
    code, out, err = tried.ended()
    assert (code, err) == (-number, "")
    assert "; interrupted in the step killed rank; now the report is written\n" in out
    files = tried.files
    summary = summary_of(files)
    assert results(summary) == {"doctor": "ok", "start": "ok"}
    assert summary["ended_early"] == "interrupted in the step killed rank"
    assert b"supervisor.started" in files["steps/killed-rank/events.jsonl"]


def test_one_that_is_told_to_end_while_it_writes_the_report_writes_it_first(tmp_path):
    slow = tmp_path / "npu-smi"
    slow.write_text("#!/bin/sh\nexec sleep 600\n")
    slow.chmod(0o755)
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    tried = Tried(tmp_path, interpreter(tmp_path), "--limit", "1s", environ=environ)
    while "now the report is written" not in tried.line():
        pass
    wait_until(lambda: ["sleep", "600"] in command_lines(tried.remains))
    tried.process.send_signal(signal.SIGINT)
    code, _, err = tried.ended()
    assert (code, err) == (-signal.SIGINT, "")
    assert "(--limit)" in summary_of(tried.files)["ended_early"]


def test_one_that_is_told_to_end_in_its_first_step_leaves_nothing(tmp_path):
    tried = Tried(tmp_path, interpreter(tmp_path))
    while not tried.line().startswith("0 NPUs"):
        pass
    wait_until(lambda: len(tried.remains) > 1)  # the doctor
    tried.process.send_signal(signal.SIGINT)
    assert tried.ended()[0] == -signal.SIGINT
    assert summary_of(tried.files)["ended_early"] == "interrupted in the step doctor"


def test_no_step_begins_after_the_limit(tmp_path):
    tried = Tried(tmp_path, interpreter(tmp_path), "--limit", "1s")
    code, out, _ = tried.ended()
    assert code == 1
    summary = summary_of(tried.files)
    assert summary["ended_early"].endswith("1 s were over (--limit)")
    assert set(results(summary)) <= {"doctor", "start"}
    assert summary["ended_early"] in out


@pytest.mark.one_python
def test_in_a_clone_a_script_does_the_same(tmp_path):
    script = Path(__file__).parents[2] / "scripts" / "trial"
    words = ("--ranks", "0")
    told = [
        subprocess.run(
            [*command, *words], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        for command in ((script,), (sys.executable, "-m", "ascend_supervisor.ctl", "trial"))
    ]
    assert told[0].returncode == told[1].returncode == 64
    assert told[0].stderr.splitlines()[-1] == told[1].stderr.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []
