"""``stop``, ``restart`` and ``dump``: what is printed of an answer, or where there is none."""

from __future__ import annotations

import json
import os

import pytest

from tests.ctl.calling import ctl, own_state, refused

ABSENT = 2**22 + 1
"""A pid above the highest that Linux gives."""
ACTS = ("stop", "restart", "dump")


def test_a_grace_is_passed_on_in_seconds(answering):
    supervisor = answering(effect="stopping")
    path = str(supervisor.path)
    assert ctl("stop", "--grace", "2m", "--state-file", path) == (0, "stopping\n", "")
    assert ctl("stop", "--state-file", path).returncode == 0
    assert [json.loads(line).get("grace") for line in supervisor.asked] == [120.0, None]


def test_a_dump_is_its_summary_and_its_files(answering):
    summary = "7 of 8 ranks wait in all_reduce\nrank 3 is in data.py:41\x1b[2J"
    path = answering(
        summary=summary, directory="/logs/d", files=["rank-0.txt", "rank-1\n.txt"]
    ).path
    assert ctl("dump", "--state-file", str(path)).stdout.splitlines() == [
        "7 of 8 ranks wait in all_reduce",
        "rank 3 is in data.py:41\\x1b[2J",
        "/logs/d/rank-0.txt",
        "/logs/d/rank-1\\n.txt",
    ]


def test_a_dump_without_files_is_its_summary(answering):
    path = answering(summary="all wait", directory=None, files=[]).path
    assert ctl("dump", "--state-file", str(path)) == (0, "all wait\n", "")


@pytest.mark.parametrize("act", ACTS)
def test_what_is_declined_is_told_and_gives_1(answering, act):
    path = answering(ok=False, error="not now\x1b").path
    assert refused(1, act, "--state-file", str(path)).endswith(": 'not now\\x1b'\n")


@pytest.mark.parametrize("act", ACTS)
def test_an_answer_that_is_not_understood_gives_1(answering, act):
    path = answering(ok=True, other=1).path
    assert "the answer of the supervisor" in refused(1, act, "--state-file", str(path))


@pytest.mark.parametrize("act", ACTS)
def test_without_a_socket_nothing_can_be_asked_for(tmp_path, act):
    sentence = refused(1, act, "--state-file", str(own_state(tmp_path / "state")))
    assert f"has no control socket {tmp_path}/state.sock (No such file or directory)" in sentence
    assert (f"kill {os.getpid()} stops it, too" in sentence) == (act == "stop")


@pytest.mark.parametrize("act", ACTS)
def test_a_supervisor_that_is_gone_cannot_be_asked(tmp_path, act):
    path = own_state(tmp_path / "state", pid=ABSENT)
    assert "is no more" in refused(1, act, "--state-file", str(path))
    own_state(path, phase="ended", exit_code=7)
    assert "has ended with 7 already" in refused(1, act, "--state-file", str(path))


@pytest.mark.parametrize("answer", [{"ok": False, "error": "nothing is left to stop"}, {}])
def test_one_that_ends_while_it_is_asked_to_stop_was_waited_for(listening, answer):
    """It has ended, as it was to; without --wait the stop itself is what was asked for."""

    def serve(connection):
        connection.recv(4096)
        own_state(path, phase="ended", exit_code=143, why="told to stop by SIGTERM", pid=ABSENT)
        if answer:
            connection.sendall(json.dumps({"version": 1, **answer}).encode() + b"\n")

    path = listening(serve)
    stop = ("stop", "--state-file", str(path))
    assert ctl(*stop, "--wait") == (0, "told to stop by SIGTERM\n", "")
    own_state(path)
    assert f"(process {ABSENT}) has ended with 143 already" in refused(1, *stop)


def test_a_restart_names_the_generation_that_runs(listening):
    """Of two who ask at once the second one does not end the next generation."""
    asked = []

    def serve(connection):
        asked.append(json.loads(connection.recv(4096)))
        status = json.loads(path.read_text()) | {"generation": 4}
        live = {"status": status, "started_at": "", "phase_seconds": 1, "ranks": []}
        answer = {"effect": "restarting", **live, "restarts": [], "restarts_left": None}
        connection.sendall(json.dumps({"version": 1, "ok": True, **answer}).encode() + b"\n")

    path = listening(serve)
    assert ctl("restart", "--state-file", str(path)) == (0, "restarting\n", "")
    assert asked[-1] == {"version": 1, "request": "restart", "generation": 4}


def test_waiting_for_the_end_of_one_that_leaves_no_word_says_so(answering):
    path = answering(effect="stopping").path
    own_state(path, pid=ABSENT)
    found = ctl("stop", "--wait", "--state-file", str(path))
    assert found.stdout.startswith(f"stopping\nprocess {ABSENT} of pod-0 does not run here")
