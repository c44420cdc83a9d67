"""What is left of a job after its end: its last events, and the list of its generations."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from ascend_supervisor.output.log_file import LogFile
from ascend_supervisor.reporters.event_file import KEPT
from tests.running import Running, wait_until

NAME = "modelarts-job-test-supervisor-job-test-0.events.jsonl"
STATE = "modelarts-job-test-supervisor-job-test-0.json"
AGAIN = ("--restarts", "2", "--restart-delay", "0.01", "--min-uptime", "0")
FAILS = (*AGAIN, "--", "sh", "-c", "echo hello; exit 3")


def kept(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def told(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without output, which the logs of the ranks have, and without what each place counts."""
    shown = (event for event in events if event["event"] != "output")
    return [{key: event[key] for key in event if key not in {"seq", "ts"}} for event in shown]


@pytest.fixture
def job(supervised) -> Running:
    running: Running = supervised("--standalone", "1", *FAILS)
    assert running.end() == 3
    return running


def test_every_event_is_kept_but_no_output(job):
    found = kept(job.log_dir / NAME)
    assert [event["seq"] for event in found] == list(range(len(found)))
    assert told(found) == told(job.events)


@pytest.mark.parametrize("options", [("--console", "none"), ("--console", "text")])
def test_they_are_kept_whatever_the_console_shows(supervised, options):
    out = os.open(os.devnull, os.O_WRONLY)
    options = (*options, "--log-level", "error")
    running = supervised("--standalone", "1", *options, *FAILS, stdout=out)
    os.close(out)
    assert running.end() == 3
    names = [event["event"] for event in kept(running.log_dir / NAME)]
    assert (names[0], names[-1]) == ("supervisor.started", "supervisor.exited")
    assert names.count("restart.scheduled") == 2


def test_a_later_start_goes_on_in_the_file_also_after_half_a_line(job, supervised):
    file = job.log_dir / NAME
    before = len(kept(file))
    with file.open("ab") as torn:
        torn.write(b'{"seq":9')
    assert supervised("--standalone", "1", "--", "true").end() == 0
    lines = file.read_bytes().splitlines()
    assert lines[before] == b'{"seq":9'
    (first, *_, last) = [json.loads(line) for line in lines[before + 1 :]]
    assert (first["seq"], first["event"], last["exit_code"]) == (0, "supervisor.started", 0)


def test_the_last_16_mib_are_kept_and_one_older_file(tmp_path):
    path = tmp_path / NAME
    line = b"x" * 1023 + b"\n"
    for start in range(3):
        file = LogFile(path, KEPT, lambda: b"")
        file.open()
        for _ in range(12 * 1024):
            file.write(line)
        file.close()
        assert sorted(found.name for found in tmp_path.iterdir()) == [
            NAME,
            *([f"{NAME}.1"] if start else []),
        ]
    sizes = [found.stat().st_size for found in tmp_path.iterdir()]
    assert sum(sizes) >= 16 * 1024 * 1024
    assert max(sizes) <= 16 * 1024 * 1024 + len(line)


def test_none_keeps_no_file(supervised):
    running = supervised("--standalone", "1", "--event-log", "none", "--", "true")
    assert running.end() == 0
    assert not list(running.log_dir.glob("*.events.jsonl*"))


def test_a_path_is_one_in_the_directory_of_the_start(supervised, tmp_path):
    running = supervised("--standalone", "1", "--event-log", "made/events", "--", "true")
    assert running.end() == 0
    assert kept(tmp_path / "made" / "events")[-1]["event"] == "supervisor.exited"
    assert not list(running.log_dir.glob("*.events.jsonl*"))


def test_it_lies_beside_a_state_file_of_another_name(supervised, tmp_path):
    running = supervised("--standalone", "1", "--state-file", "here/state", "--", "true")
    assert running.end() == 0
    assert kept(tmp_path / "here" / "state.events.jsonl")


def test_where_it_cannot_be_written_that_is_told_and_the_job_runs(supervised, tmp_path):
    (tmp_path / "taken").mkdir()
    running = supervised("--standalone", "1", "--event-log", "taken", "--", "true")
    assert running.end() == 0
    (diagnostic,) = running.all("diagnostic", source="the event log")
    assert f"{tmp_path}/taken cannot be written: Is a directory" in diagnostic["msg"]


def test_a_start_that_is_refused_leaves_it_alone(supervised, tmp_path):
    gate = tmp_path / "gate"
    wait = f"while [ ! -e {gate} ]; do sleep 0.05; done"
    first = supervised("--standalone", "1", "--", "sh", "-c", wait)
    first.wait_for("process.started")
    assert supervised("--standalone", "1", "--", "true").end() == 69
    gate.touch()
    assert first.end() == 0
    assert {event["pid"] for event in kept(first.log_dir / NAME)} == {first.pid}


def test_the_state_file_lists_the_generations(job):
    generations = json.loads((job.log_dir / STATE).read_text())["generations"]
    assert [one["generation"] for one in generations] == [0, 1, 2]
    assert [one["free"] for one in generations] == [False, False, None]
    for number, one in enumerate(generations):
        assert one["started_at"] < one["ended_at"]
        assert one["outcome"] == "crashed"
        assert one["cause"].startswith(f"rank 0 failed first, in generation {number}: it exited")


def test_status_shows_them_after_the_end(job, supervised, tmp_path):
    words = ("-m", "ascend_supervisor.ctl", "--log-dir", str(job.log_dir), "status")
    asked = supervised(program=words, stdout=os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT))
    assert asked.end() == 0
    text = (tmp_path / "out").read_text()
    for number in range(3):
        assert f"rank 0 failed first, in generation {number}: it exited with status 3" in text


def test_of_a_supervisor_that_was_killed_the_events_are_there(supervised):
    running = supervised("--standalone", "1", "--", sys.executable, "-c", "input()")
    running.wait_for("process.exited")
    assert running.end() == 1
    waiting = supervised("--standalone", "1", "--", "sleep", "600")
    waiting.wait_for("process.started")
    file = running.log_dir / NAME
    wait_until(lambda: kept(file)[-1]["event"] == "process.started")
    waiting.send(signal.SIGKILL)
    waiting.end()
    assert kept(file)[-1]["event"] == "process.started"


REFUSED = {
    "settings": (64, ("--restarts", "three", "--", "true"), {}),
    "a platform": (64, ("--", "true"), {"WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"}),
    "a place": (73, ("--work-dir", os.devnull, "--", "true"), {}),
    "a supervisor that runs": (69, ("--", "true"), {}),
}


@pytest.mark.parametrize(("code", "words", "environ"), REFUSED.values(), ids=REFUSED)
def test_a_start_that_is_refused_writes_nothing_into_the_file(supervised, code, words, environ):
    """It may be that of a supervisor that runs."""
    first = supervised("--standalone", "1", "--", "sleep", "60")
    first.wait_for("process.started")
    wait_until(lambda: b"process.started" in (first.log_dir / NAME).read_bytes())
    before = (first.log_dir / NAME).read_bytes()
    second = supervised("--standalone", "1", *words, environ=environ)
    assert second.end() == code
    assert second.log_dir == first.log_dir
    assert (first.log_dir / NAME).read_bytes() == before
    first.send(signal.SIGTERM)
    assert first.end() == 143
