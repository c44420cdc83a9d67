"""``health`` and ``ready``, by what answers and by what the state file says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ascend_supervisor.ctl.seen import socket_of
from ascend_supervisor.files.socket_file import ListeningSocket
from ascend_supervisor.processes.proc import start_time
from tests.ctl.calling import ctl, own_state, process, rank_of, refused
from tests.faults.facilities import hanging
from tests.running import DEADLINE_SECONDS, wait_until

NO_PID = 2**22 + 1
"""Above the highest that Linux gives."""


def test_a_supervisor_that_answers_is_healthy_even_if_its_process_is_not_to_be_seen(answering):
    path = answering(pid=7, start_time=8).path
    own_state(path, pid=NO_PID)
    assert ctl("health", "--state-file", str(path)) == (0, "", "")


def test_a_supervisor_that_declines_to_answer_is_alive(answering):
    path = answering(ok=False, error="too many connections").path
    assert ctl("health", "--state-file", str(path)) == (0, "", "")


@pytest.mark.parametrize("ready", [True, False])
def test_ready_is_what_the_supervisor_says(answering, ready):
    path = answering(ready=ready, reason="rank 3 has sent neither\x1b").path
    found = ctl("ready", "--state-file", str(path))
    assert found.returncode == (0 if ready else 1)
    assert found.stdout == ""
    assert ("rank 3 has sent neither" in found.stderr) == (not ready)
    assert "\x1b" not in found.stderr


def test_ready_fails_if_the_supervisor_declines(answering):
    path = answering(ok=False, error="user 3 may not ask").path
    assert "user 3 may not ask" in refused(1, "ready", "--state-file", str(path))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"phase": "ended", "exit_code": 0, "why": "every rank ended with 0"}, "has ended with 0"),
        ({"phase": "waiting", "why": "no table"}, "'waiting': no table"),
        ({"pid": NO_PID}, "is no more"),
        ({}, "no rank has started"),
        ({"ranks": [rank_of(Path("/log")), rank_of(Path("/l"), 1, pid=NO_PID)]}, f"{NO_PID} has"),
        ({"ranks": [rank_of(Path("/log"), status=0)]}, "has ended"),
    ],
)
def test_without_a_socket_ready_says_what_the_state_file_lacks(tmp_path, changes, expected):
    path = own_state(tmp_path / "state", **changes)
    assert expected in refused(1, "ready", "--state-file", str(path))


def test_without_a_socket_ranks_that_run_are_ready(tmp_path):
    path = own_state(tmp_path / "state", ranks=[rank_of(tmp_path / "log")])
    assert ctl("ready", "--state-file", str(path)) == (0, "", "")


@pytest.fixture
def stopped() -> Iterator[subprocess.Popen[bytes]]:
    """A process that was stopped."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        child.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
        yield child
        child.kill()


def test_without_a_socket_a_stopped_supervisor_is_not_healthy(tmp_path, stopped):
    path = own_state(tmp_path / "state", pid=stopped.pid, start_time=start_time(stopped.pid))
    assert "was stopped (SIGSTOP)" in refused(1, "health", "--state-file", str(path))


@pytest.mark.long
def test_a_stopped_supervisor_is_said_to_be_stopped(tmp_path, stopped):
    path = own_state(tmp_path / "state", pid=stopped.pid, start_time=start_time(stopped.pid))
    listener = ListeningSocket.at(socket_of(path))
    sentence = refused(1, "health", "--state-file", str(path))
    listener.remove()
    assert "did not answer within 4.5 s" in sentence
    assert f"kill -CONT {stopped.pid}" in sentence


@pytest.mark.long
@pytest.mark.parametrize("command", ["health", "ready"])
def test_a_file_system_that_stands_still_fails_a_probe(tmp_path, command):
    with hanging(tmp_path, os.geteuid(), "disk") as (disk,):
        path = own_state(disk.target / "state")
        disk.freeze()
        assert process(command, "--state-file", str(path)).returncode == 1
        disk.thaw()


def test_a_supervisor_that_ends_while_it_is_asked_is_judged_by_its_end(tmp_path):
    path = own_state(tmp_path / "state")
    listener = ListeningSocket.at(socket_of(path))
    listener.socket.settimeout(None)

    def end() -> None:
        connection, _ = listener.socket.accept()
        own_state(path, phase="ended", exit_code=0)
        connection.close()

    thread = threading.Thread(target=end)
    thread.start()
    assert ctl("health", "--state-file", str(path)) == (0, "", "")
    thread.join(DEADLINE_SECONDS)
    listener.remove()
    wait_until(lambda: not thread.is_alive())
