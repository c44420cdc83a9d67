"""A second supervisor is started where one runs: it waits or is refused, and touches nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.facilities import hanging
from tests.running import Running, python, wait_until

STANDALONE = ("--standalone", "1", "--grace", "600")
DEAF = """
import os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
open(sys.argv[1]).close()  # a pipe: until the test opens it
print("down", flush=True)
"""
AGAIN = python("print('again')")
ordinary = pytest.mark.parametrize("way", ["ordinary"], indirect=True)


@pytest.fixture
def gate(place: Path) -> Path:
    path = place / "gate"
    os.mkfifo(path)
    path.chmod(0o666)
    return path


def opened(gate: Path) -> None:
    gate.open("w").close()


@pytest.fixture
def first(bad_day, gate) -> Running:
    """A supervisor whose rank says that it is up, does not hear SIGTERM, and ends at the gate."""
    job: Running = bad_day(*STANDALONE, *python(DEAF), str(gate))
    job.wait_for("output", msg="up")
    wait_until(lambda: '"local_rank": 0' in state_of(job))
    wait_until(lambda: job.log(0).read_bytes().endswith(b"up\n"))
    return job


def state_of(job: Running) -> str:
    found = list(job.log_dir.glob("*-supervisor-*.json"))
    return found[0].read_text() if found else ""


def files_of(job: Running) -> dict[str, tuple[int, bytes]]:
    """Its logs and its state: which file it is (each state is a new one), and its bytes."""
    found = {
        path.name: (path.stat().st_ino, path.read_bytes()) for path in job.log_dir.glob("*.txt*")
    }
    (state,) = job.log_dir.glob("*-supervisor-*.json")
    return {**found, state.name: (0, state.read_bytes())}


def healthy(job: Running) -> bool:
    (state,) = job.log_dir.glob("*-supervisor-*.json")
    words = ("-m", "ascend_supervisor.ctl", "health", "--state-file", str(state))
    asked = subprocess.run([sys.executable, *words], check=False, timeout=60)
    return asked.returncode == 0


def test_where_a_healthy_one_runs_it_is_refused_and_touches_nothing(
    bad_day, place, way, first, gate
):
    termination = place / "termination-log"
    termination.touch()
    before = files_of(first)
    second = bad_day(*STANDALONE, "--termination-log", str(termination), *AGAIN)
    assert second.end() == 69
    refusal = second.events[-1]["reason"]
    (state,) = first.log_dir.glob("*-supervisor-*.json")
    who = "1 of job-test-0 in another container" if way.is_pid_1 else str(first.pid)
    assert f"another supervisor uses the state file {state}: process {who}, started " in refusal
    assert second.stderr == f"ascend_supervisor: {refusal}\n"
    assert files_of(first) == before
    assert termination.read_text() == (f"{refusal}\n" if way.is_pid_1 else "")
    assert way.is_pid_1 or healthy(first)  # the pid of a PID 1 is known in its namespace
    opened(gate)
    assert first.end() == 0
    assert b"up\ndown\n" in first.log(0).read_bytes()
    assert bad_day(*STANDALONE, *AGAIN).end() == 0


def test_where_one_is_ending_it_waits_and_then_runs(bad_day, way, first, gate):
    first.send(signal.SIGTERM)
    wait_until(lambda: "stopping" in state_of(first))
    second = bad_day(*STANDALONE, *AGAIN)
    waiting = second.wait_for("diagnostic", source="the lock of the state file")
    assert "630 s at most" in waiting["message"]
    assert not list(first.log_dir.glob("*.1"))
    opened(gate)
    assert first.end() == 143
    assert second.end() == 0
    assert second.said(0) == ["again"]
    assert b"up\ndown\n" in first.log(0).with_suffix(".txt.1").read_bytes()


def test_a_signal_ends_the_wait_for_one_that_is_ending(bad_day, way, first, gate):
    first.send(signal.SIGTERM)
    wait_until(lambda: "stopping" in state_of(first))
    before = files_of(first)
    second = bad_day(*STANDALONE, *AGAIN)
    second.wait_for("diagnostic", source="the lock of the state file")
    second.send(signal.SIGTERM)
    assert second.end() == 143
    assert files_of(first) == before
    opened(gate)
    assert first.end() == 143


def test_of_many_that_start_together_one_runs(bad_day, way, gate):
    together = [bad_day(*STANDALONE, *python(DEAF), str(gate)) for _ in range(4)]
    refused = [job for job in together if "generation.started" not in names_until_it_is_known(job)]
    assert [job.end() for job in refused] == [69] * 3
    opened(gate)
    (one,) = (job for job in together if job not in refused)
    assert one.end() == 0


def names_until_it_is_known(job: Running) -> set[str]:
    """The names of its events up to the one that says whether it runs."""
    known = {"generation.started", "supervisor.exited"}
    wait_until(lambda: known & {event["event"] for event in job.events})
    return {event["event"] for event in job.events}


@ordinary
def test_where_no_lock_can_be_had_a_state_file_keeps_it_out(bad_day, way, place, gate):
    logs = place / "modelarts" / "log"
    (logs / "modelarts-job-test-supervisor-job-test-0.json.lock").mkdir(parents=True)
    first = bad_day(*STANDALONE, *python(DEAF), str(gate))
    told = first.wait_for("diagnostic", source="the lock of the state file")
    assert "cannot be locked: Is a directory" in told["message"]
    first.wait_for("output", msg="up")
    wait_until(lambda: "running" in state_of(first))
    assert bad_day(*STANDALONE, *AGAIN).end() == 69
    opened(gate)
    assert first.end() == 0


@ordinary
def test_a_file_system_that_does_not_answer_is_told_and_done_without(bad_day, way, place):
    with hanging(place, way.uid, "disk") as (disk,):
        disk.freeze()
        state = disk.target / "state.json"
        job = bad_day(*STANDALONE, "--state-file", str(state), *AGAIN)
        told = job.wait_for("diagnostic", source="the lock of the state file")
        assert "cannot be locked: the file system does not answer" in told["message"]
        assert job.end() == 0
        assert job.said(0) == ["again"]
