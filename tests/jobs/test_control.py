"""The control socket of whole jobs: every request, in every phase, and what comes of it."""

from __future__ import annotations

import json
import os
import pwd
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ascend_supervisor.control import protocol
from ascend_supervisor.control.status_answer import (
    LiveStatus,
    PastRestart,
    PeersStatus,
    RankRow,
    ServerRow,
)
from tests.control.asking import ask, ask_job, socket_of
from tests.running import DEADLINE_SECONDS, python, wait_until
from tests.test_docs import page

UP = "import time; print('up', flush=True); time.sleep(600)"
SAVES = """
import os, signal, time

def save(*_):
    os.write(1, b"saving\\n")

signal.signal(signal.SIGTERM, save)
os.write(1, b"up\\n")
while True:
    time.sleep(0.05)  # a signal just before a sleep does not end it
"""
US = f"process {os.getpid()} of user {pwd.getpwuid(os.geteuid()).pw_name}"


def until_up(job, ranks: int = 1, generation: int = 0) -> None:
    for rank in range(ranks):
        job.wait_for("output", rank=rank, generation=generation, msg="up")


def test_ping_names_the_supervisor(supervised):
    job = supervised("--standalone", "1", *python(UP))
    answer = ask_job(job, "ping")
    path = Path(str(socket_of(job)).removesuffix(".sock"))
    wait_until(path.exists)
    state = json.loads(path.read_bytes())
    assert (answer["pid"], answer["start_time"]) == (job.pid, state["start_time"])


def test_status_is_the_state_file_and_more_and_writes_nothing(supervised):
    job = supervised("--standalone", "2", "--restarts", "3", *python(UP))
    until_up(job, 2)
    path = Path(str(socket_of(job)).removesuffix(".sock"))
    wait_until(lambda: len(json.loads(path.read_bytes())["ranks"]) == 2)
    before = path.stat()
    answer = ask_job(job, "status")
    assert answer["status"] == json.loads(path.read_bytes())
    assert (answer["restarts"], answer["restarts_left"]) == ([], 3)
    assert answer["phase_seconds"] >= 0
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", answer["started_at"])
    pids = [event["child_pid"] for event in job.all("process.started")]
    for rank, row in enumerate(answer["ranks"]):
        assert (row["rank"], row["local_rank"], row["pid"]) == (rank, rank, pids[rank])
        assert (row["state"], row["program"], row["notify_status"]) == ("running", None, "")
        assert (row["bytes"], row["last_line"]) == (3, "up")
        assert 0 <= row["silent_seconds"] <= row["uptime_seconds"] + 1
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_job_is_ready_while_all_of_its_ranks_run(supervised):
    job = supervised("--standalone", "2", "--grace", "300", *python(SAVES))
    until_up(job, 2)
    assert ask_job(job, "ready")["ready"] is True
    ask_job(job, "restart")
    job.wait_for("output", msg="saving")
    assert ask_job(job, "ready") == {
        "version": 1,
        "ok": True,
        "ready": False,
        "reason": "generation 0 is being ended",
    }


def test_ranks_that_are_to_notify_are_not_ready_before_they_have(supervised):
    job = supervised("--standalone", "2", "--watchdog", "600", *python(UP))
    until_up(job, 2)
    reason = "ranks 0, 1 have sent neither READY=1 nor WATCHDOG=1"
    assert ask_job(job, "ready")["reason"] == reason


def test_a_job_that_waits_for_its_table_answers_and_can_be_stopped(supervised, tmp_path):
    job = supervised("--rank-table", str(tmp_path / "table.json"), *python(UP))
    job.wait_for("rank_table.waiting")
    answer = ask_job(job, "status")
    assert (answer["status"]["phase"], answer["ranks"]) == ("waiting", [])
    assert ask_job(job, "ready")["reason"].startswith("the job is waiting: ")
    assert "no generation runs, the job is waiting" in ask_job(job, "restart")["error"]
    assert ask_job(job, "stop")["effect"] == "stopping; no rank runs"
    assert job.end() == 143


def test_a_stop_that_is_asked_for_says_by_whom(supervised):
    job = supervised("--standalone", "2", *python(UP))
    until_up(job, 2)
    assert ask_job(job, "stop")["effect"] == "stopping, with 20 s of grace"
    assert job.end() == 143
    told = job.wait_for("control.requested")
    assert (told["request"], told["peer_pid"], told["uid"]) == ("stop", os.getpid(), os.geteuid())
    assert told["msg"] == f"{US} asked for stop: stopping, with 20 s of grace"
    reason = f"told to stop by ascend-supervisorctl ({US})"
    assert job.wait_for("supervisor.exited")["reason"] == reason
    assert job.all("signal.received") == []
    assert {event["signal"] for event in job.all("process.exited")} == {"SIGTERM"}
    assert not socket_of(job).exists()


def test_a_stop_keeps_the_grace_of_the_job(supervised):
    job = supervised("--standalone", "1", "--grace", "300", *python(SAVES))
    until_up(job)
    ask_job(job, "stop")
    job.wait_for("output", msg="saving")
    answer = ask_job(job, "status")
    assert answer["status"]["phase"] == "stopping"
    assert ask_job(job, "stop")["effect"] == "stopping already; this changes nothing"
    again = ask_job(job, "stop", grace=0.2)
    assert again["effect"] == "stopping; what is left after a grace of 0.2 s is killed"
    assert job.end() == 143
    assert job.wait_for("process.exited")["signal"] == "SIGKILL"


def test_a_stop_may_have_a_grace_of_its_own(supervised):
    job = supervised("--standalone", "1", "--grace", "300", *python(SAVES))
    until_up(job)
    ask_job(job, "stop", grace=0.5)
    assert job.end() == 143
    assert job.said(0) == ["up", "saving"]
    assert job.wait_for("process.exited")["signal"] == "SIGKILL"


def test_a_restart_that_is_asked_for_costs_nothing(supervised):
    job = supervised("--standalone", "2", "--restart-delay", "0", *python(UP))
    for generation in range(3):
        until_up(job, 2, generation)
        effect = f"generation {generation} is ended, and the next one starts"
        assert ask_job(job, "restart")["effect"] == effect
    until_up(job, 2, 3)
    answer = ask_job(job, "status")
    cause = f"restart asked for by {US}"
    assert [(one["generation"], one["cause"], one["free"]) for one in answer["restarts"]] == [
        (generation, cause, True) for generation in range(3)
    ]
    assert (answer["status"]["generation"], answer["restarts_left"]) == (3, 0)
    ask_job(job, "stop")
    assert job.end() == 143
    assert [event["outcome"] for event in job.all("generation.ended")][:3] == ["fault"] * 3


def test_a_restart_asked_for_twice_happens_once(supervised):
    job = supervised("--standalone", "1", "--grace", "1", "--restart-delay", "0", *python(SAVES))
    until_up(job)
    ask_job(job, "restart")
    job.wait_for("output", msg="saving")
    assert ask_job(job, "restart")["error"] == "generation 0 is being ended already"
    until_up(job, generation=1)
    ask_job(job, "stop", grace=0)
    assert job.end() == 143
    assert len(job.all("generation.started")) == 2


def test_a_crash_is_a_restart_with_its_cause(supervised):
    source = (
        "import os, time; print('up', flush=True)\n"
        "os.environ['TORCHELASTIC_RESTART_COUNT'] == '0' and os._exit(7)\ntime.sleep(600)"
    )
    budget = ("--restarts", "1", "--restart-delay", "0")
    job = supervised("--standalone", "1", *budget, *python(source))
    until_up(job, generation=1)
    (restart,) = ask_job(job, "status")["restarts"]
    assert restart["cause"].startswith("rank 0 failed first, in generation 0: it exited with")
    assert (restart["generation"], restart["free"]) == (0, False)
    scheduled = job.wait_for("restart.scheduled")
    assert (scheduled["cause"], scheduled["free"]) == (restart["cause"], False)


def test_it_answers_in_the_back_off_and_can_be_stopped_there(supervised):
    waits = ("--restarts", "1", "--release-delay", "600")
    job = supervised("--standalone", "1", *waits, *python("print('up'); raise SystemExit(7)"))
    job.wait_for("restart.scheduled")
    answer = ask_job(job, "status")
    assert answer["status"]["phase"] == "backing off"
    assert [(row["state"], row["last_line"]) for row in answer["ranks"]] == [("ended", "up")]
    assert "the job is backing off" in ask_job(job, "dump")["error"]
    ask_job(job, "stop")
    assert job.end() == 143


def test_a_dump_is_taken_or_declined_in_a_sentence(supervised):
    job = supervised("--standalone", "1", "--hang-dump", "none", *python(UP))
    until_up(job)
    answer = ask_job(job, "dump")
    assert answer["ok"] is False
    assert answer["error"] == "nothing was looked at: --hang-dump none was given"
    assert job.wait_for("control.requested")["request"] == "dump"


def test_a_path_of_any_length_works(supervised, tmp_path):
    deep = tmp_path / ("d" * 120) / ("e" * 120)
    state = deep / f"{'s' * 200}.json"
    job = supervised("--standalone", "1", "--state-file", str(state), *python(UP))
    path = deep / f"{state.name}.sock"
    wait_until(path.exists)
    assert ask(path, "ping")["pid"] == job.pid


def test_the_next_start_replaces_the_socket_of_one_that_was_killed(supervised):
    job = supervised("--standalone", "1", *python(UP))
    ask_job(job, "ping")
    job.process.kill()
    job.end()
    assert socket_of(job).exists()
    following = supervised("--standalone", "1", *python(UP))
    until_up(following)
    assert ask_job(following, "ping")["pid"] == following.pid


def test_what_lies_in_the_place_of_the_socket_is_left_alone(supervised, tmp_path):
    path = tmp_path / "modelarts/log/modelarts-job-test-supervisor-job-test-0.json.sock"
    path.parent.mkdir(parents=True)
    path.write_text("somebody's")
    job = supervised("--standalone", "1", *python("pass"))
    assert job.end() == 0
    assert "something that is not a socket is there" in job.wait_for("diagnostic")["msg"]
    assert path.read_text() == "somebody's"


def test_descriptors_that_the_ranks_may_need_are_left_to_them(supervised):
    job = supervised("--standalone", "1", *python("pass"), before=("prlimit", "--nofile=60"))
    assert job.end() == 0
    assert re.search(r"only \d\d file descriptors are free", job.wait_for("diagnostic")["msg"])


PAGES = ("docs/control.md", "docs/control.zh.md")
EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", PAGES)
def test_the_example_of_the_page_works(supervised, name):
    (example,) = EXAMPLE.findall(page(name))
    job = supervised("--standalone", "1", *python(UP))
    until_up(job)
    wait_until(socket_of(job).exists)
    # The example is for a path that fits.
    found = subprocess.run(
        [sys.executable, "-c", example, socket_of(job).name],
        cwd=job.log_dir,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert (found.stdout, found.stderr) == ("generation 0 runs\n", "")


@pytest.mark.parametrize("name", PAGES)
def test_every_request_and_answer_is_on_the_page(name):
    text = page(name)
    rows = {row.split("|")[1].strip(" `") for row in text.splitlines() if row.startswith("| `")}
    assert set(protocol._NAMES) <= rows
    kinds = (
        *(LiveStatus, RankRow, PastRestart, PeersStatus, ServerRow),
        *(protocol.Dumped, protocol.Pong, protocol.Readiness),
    )
    keys = {key for kind in kinds for key in kind.__struct_fields__}
    assert [key for key in sorted(keys) if f"`{key}`" not in text] == []


FLOODS = "import os\nfor _ in range(64):\n    os.write(1, b'x' * 65535 + b'\\n')"
"""More than a pipe holds, so that the last words wait for the reader."""


def test_while_the_last_words_wait_for_a_reader_the_job_has_ended(supervised):
    read_end, write_end = os.pipe()
    job = supervised("--standalone", "1", *python(FLOODS), stdout=write_end)
    os.close(write_end)
    wait_until(lambda: socket_of(job).exists())
    state_file = Path(str(socket_of(job)).removesuffix(".sock"))
    wait_until(lambda: state_file.exists() and b'"ended"' in state_file.read_bytes())
    assert ask(socket_of(job), "status")["status"]["phase"] == "ended"
    assert "nothing is left to stop" in ask(socket_of(job), "stop")["error"]
    os.close(read_end)
    job.process.wait(DEADLINE_SECONDS)
