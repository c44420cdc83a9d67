"""How a job stands, by the state file of its supervisor, whatever is in that file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from typing import Any

import pytest

from ascend_supervisor.processes.proc import start_time
from tests.ctl.calling import ctl, own_state, refused


def test_a_pid_that_another_process_has_by_now_is_no_supervisor(tmp_path):
    path = own_state(tmp_path / "state", start_time=1)
    assert "is no more" in ctl("status", "--state-file", str(path)).stderr


@pytest.mark.parametrize("written", [-1e15, -1.0, 0.0, 5e9, 1e15])
def test_whatever_time_a_state_file_has_it_is_shown(tmp_path, written):
    path = own_state(tmp_path / "state", start_time=1)
    with suppress(OSError):  # its file system has no such time
        os.utime(path, (written, written))
    found = ctl("status", "--state-file", str(path))
    assert found.returncode == 0
    assert "supervisor" in found.stdout


def test_what_would_steer_the_terminal_is_shown_and_not_sent(tmp_path):
    path = own_state(tmp_path / "state", why="\x1b[2J", job_id="\x9b", root_cause="a\nb\r")
    found = ctl("status", "--state-file", str(path))
    assert found.returncode == 0
    assert not set(found.stdout) & set("\x1b\x9b\r")


def test_a_supervisor_that_is_not_reaped_yet_is_no_more(tmp_path):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        path = own_state(tmp_path / "state", pid=process.pid, start_time=start_time(process.pid))
        assert ctl("health", "--state-file", str(path)).returncode == 0
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert "is no more" in refused(1, "health", "--state-file", str(path))


def test_a_probe_that_cannot_know_fails_with_1_even_where_others_give_64():
    environ = {"JOB_ID": "../elsewhere"}
    assert "JOB_ID" in refused(1, "health", environ=environ)
    assert "JOB_ID" in refused(64, "status", environ=environ)


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
    told = ctl("status", environ=environ)
    sentence, *listed = told.stderr.splitlines()
    assert (told.returncode, told.stdout) == (1, "")
    assert "--state-file" in sentence
    assert listed == [f"ascend-supervisorctl: found: {path}" for path in sorted(paths)]


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
    "diagnosis": [7, [], {"id": "disk-full"}],
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
