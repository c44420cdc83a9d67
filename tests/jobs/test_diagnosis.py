"""Where the cause of a failure is told, in which language, and which causes end a job at once."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

import pytest

from tests.ctl.calling import ctl
from tests.running import Running, python

BUSY = "EJ0001: Failed to initialize the HCCP process."
FAILS = f"import sys; sys.exit({BUSY!r})"
ZH = (
    "HCCP 进程未能启动：NPU 可能被另一进程占用；"
    "确认每个 rank 使用不同的 NPU；结束仍打开 /dev/davinci* 的进程，"
    "在其退出 10 秒后再启动（--release-delay） [EJ0001]"
)
EN = (
    "HCCP did not start: another process may hold the NPU; "
    "give each rank its own NPU, end other processes on /dev/davinci*, and "
)


def failing(
    supervised: Callable[..., Running],
    *words: str,
    environ: Mapping[str, str] | None = None,
    source: str = FAILS,
) -> Running:
    job = supervised("--standalone", "1", *words, *python(source), environ=environ or {})
    job.end()
    return job


def test_the_events_and_the_state_file_hold_the_cause_in_both_languages(supervised):
    job = failing(supervised, "--restarts", "1", "--restart-delay", "0")
    known = job.wait_for("supervisor.exited")["diagnosis"]
    assert known["text"] in EN
    assert f"{known['text_zh']}；{known['remedy_zh']} [EJ0001]" == ZH
    assert known["remedy"].startswith("give each rank its own NPU")
    assert (known["id"], known["layer"], known["is_consequence"]) == ("EJ0001", "device", False)
    assert (known["rank"], known["see"]) == (0, "docs/causes.md#ej0001")
    assert job.wait_for("generation.ended")["diagnosis"] == known
    assert job.wait_for("restart.scheduled")["diagnosis"] == known
    (state,) = job.log_dir.glob("*-supervisor-*.json")
    assert json.loads(state.read_bytes())["diagnosis"] == known


@pytest.mark.parametrize(
    ("words", "environ"),
    [
        (("--language", "zh"), {}),
        ((), {"LANG": "zh_CN.UTF-8"}),
        ((), {"LC_MESSAGES": "zh_CN.UTF-8", "LANG": "C"}),
    ],
)
def test_an_operator_reads_the_last_line_in_his_language(supervised, tmp_path, words, environ):
    log = tmp_path / "termination"
    job = failing(supervised, *words, "--termination-log", str(log), environ=environ)
    end = job.wait_for("supervisor.exited")
    assert end["explained"] == ZH
    assert end["msg"].startswith(f"{ZH}: rank 0 failed first, in generation 0: it exited with")
    assert log.read_text().splitlines()[:2] == [ZH, end["root_cause"].splitlines()[0]]


@pytest.mark.parametrize("environ", [{"LC_ALL": "C", "LANG": "zh_CN"}, {"LANG": "de_DE.UTF-8"}])
def test_what_the_failure_says_itself_is_not_said_twice(supervised, environ):
    end = failing(supervised, environ=environ).wait_for("supervisor.exited")
    assert end["explained"] is None
    assert EN in end["msg"]


def test_what_the_table_does_not_know_is_null(supervised):
    job = failing(supervised, source="import os; os._exit(3)")
    end = job.wait_for("supervisor.exited")
    assert end["diagnosis"] is end["explained"] is None
    assert job.wait_for("generation.ended")["diagnosis"] is None


def test_a_rank_that_ends_with_0_has_no_cause_whatever_it_has_printed(supervised):
    job = failing(supervised, source=f"print({BUSY!r}); print('NPU out of memory. Tried to')")
    end = job.wait_for("supervisor.exited")
    assert (job.process.returncode, end["diagnosis"], end["explained"]) == (0, None, None)
    assert job.wait_for("generation.ended")["diagnosis"] is None


@pytest.mark.parametrize(("lines", "known"), [(60, "EJ0001"), (300, None)])
def test_the_last_64_kib_are_searched(supervised, lines, known):
    after = rf"print({lines} * ('step: ' + 900 * 'x' + '\n'))"
    job = failing(supervised, source=f"import sys; print({BUSY!r}); {after}; sys.exit(1)")
    found = job.wait_for("supervisor.exited")["diagnosis"]
    assert (found and found["id"]) == known


@pytest.mark.parametrize("named", ["EJ0001", "user,device", "ej0001"])
def test_a_cause_that_no_restart_can_mend_ends_the_job_at_once(supervised, named):
    job = failing(supervised, "--restarts", "3", "--no-restart-on-cause", named)
    assert not job.all("restart.scheduled")
    assert (
        "EJ0001, a cause of the layer device, is never tried again (--no-restart-on-cause)"
        in job.wait_for("supervisor.exited")["msg"]
    )


def test_other_causes_are_tried_again(supervised):
    words = ("--restarts", "1", "--restart-delay", "0", "--no-restart-on-cause", "user,host")
    assert failing(supervised, *words).all("restart.scheduled")


def test_a_cause_that_nobody_knows_is_refused(supervised):
    job = failing(supervised, "--no-restart-on-cause", "usr")
    assert job.process.returncode == 64
    assert (
        "expected layers (user, framework, cann, device, host, network, cluster, unknown) or ids"
        in (job.wait_for("supervisor.exited")["msg"])
    )


def test_of_sigkill_the_end_and_the_report_say_what_is_known_and_where_to_look(supervised):
    job = failing(supervised, source="import os; os.kill(os.getpid(), 9)")
    end = job.wait_for("supervisor.exited")
    assert end["diagnosis"]["id"] == "killed"
    (state,) = job.log_dir.glob("*-supervisor-*.json")
    report = " ".join(ctl("report", "--text", "--state-file", str(state)).stdout.split())
    for text in (end["msg"], report):
        counter = (
            r" s \((?:the kernel's OOM counter did not rise|whether memory ran out is unknown)\)"
        )
        assert re.search(f"it was killed by SIGKILL after [0-9.]+{counter}", text)
        assert "ind out who sent it: see dmesg for the OOM killer, the events of the pod" in text


PLAIN = "raise ValueError('the end.')"


def test_an_exception_of_which_only_the_type_is_known_comes_before_what_its_type_says(
    supervised, tmp_path
):
    log = tmp_path / "termination"
    job = failing(supervised, "--termination-log", str(log), source=PLAIN)
    end = job.wait_for("supervisor.exited")
    assert end["msg"].startswith("rank 0 failed first, in generation 0: it exited with status 1 ")
    assert ": ValueError: the end; no restarts were asked for (--restarts); ending " in end["msg"]
    assert end["msg"].endswith(f"; {end['explained']}")
    assert "[refused-value]" in end["explained"]
    assert log.read_text().splitlines()[0] == end["root_cause"].splitlines()[0]
    assert log.read_text().splitlines()[-1] == end["explained"]
    (state,) = job.log_dir.glob("*-supervisor-*.json")
    report = " ".join(ctl("report", "--text", "--state-file", str(state)).stdout.split())
    assert re.search("Why: it exited with status 1 after [0-9.]+ s: ValueError: the end ", report)
    assert "What to do: Look at the message after ValueError" in report
