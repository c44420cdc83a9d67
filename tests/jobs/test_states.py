"""By which rules a job ends, and that its end is told where people look for it."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.ctl.calling import ctl
from tests.running import python

DATA = Path(__file__).parents[1] / "data" / "rank_tables"
FAIL = "print('the cause'); raise SystemExit(3)"


def test_three_early_deaths_alike_end_the_job(supervised):
    options = ("--restarts", "100", "--restart-delay", "0")
    job = supervised("--standalone", "1", *options, *python(FAIL))
    assert job.end() == 3
    assert len(job.all("generation.started")) == 3
    assert "same way" in job.events[-1]["reason"]


def test_a_status_that_is_never_tried_again(supervised):
    options = ("--restarts", "100", "--no-restart-on", "3")
    job = supervised("--standalone", "1", *options, *python(FAIL))
    assert job.end() == 3
    assert len(job.all("generation.started")) == 1


def test_where_other_servers_hold_ranks_nothing_is_restarted(supervised):
    table = DATA / "template1-two-servers.json"
    options = ("--rank-table", str(table), "--node-rank", "1", "--restarts", "3")
    job = supervised(*options, *python(FAIL))
    assert job.end() == 3
    assert job.wait_for("rank_table.ready")["local_ranks"] == [4, 5, 6, 7]
    assert len(job.all("generation.started")) == 1
    assert job.wait_for("generation.ended")["next"] == "stop"


def test_two_pods_on_one_host_start_only_their_own_devices(supervised):
    table = DATA / "template2-two-pods-one-host.json"
    source = "import os; print(os.environ['RANK_ID'], os.environ['DEVICE_ID'])"
    environ = {"MA_CURRENT_INSTANCE_NAME": "job77-job-small-1"}
    job = supervised("--rank-table", str(table), *python(source), environ=environ)
    assert job.end() == 0
    assert [job.said(rank) for rank in (0, 1, 2, 3)] == [[], [], ["2 0"], ["3 1"]]


def test_the_failure_is_told_the_same_everywhere(supervised, tmp_path):
    source = (
        "import json, os\n"
        "json.dump({'message': {'message': 'ValueError: bad shape'}},"
        " open(os.environ['TORCHELASTIC_ERROR_FILE'], 'w'))\n"
        "for n in range(40): print('line', n)\n"
        "raise SystemExit(3)"
    )
    termination = tmp_path / "termination-log"
    termination.touch()
    options = ("--standalone", "1", "--termination-log", str(termination))
    job = supervised(*options, *python(source))
    assert job.end() == 3
    end = job.events[-1]
    cause = end["root_cause"]
    assert "[refused-value]" in end["explained"]
    assert termination.read_text() == f"{cause}\n{end['explained']}\n"
    assert cause.startswith("rank 0 failed first, in generation 0: it exited with status 3 after ")
    assert "\nit raised: ValueError: bad shape\n" in cause
    assert cause.endswith("".join(f"\n  line {number}" for number in range(20, 40)))
    state = json.loads((job.log_dir / "modelarts-job-test-supervisor-job-test-0.json").read_text())
    assert (state["phase"], state["exit_code"], state["root_cause"]) == ("ended", 3, cause)


ENDS = {
    "an exception": ("raise ValueError('batch 5')", 1, ": ValueError: batch 5"),
    "words": ("print('no data'); raise SystemExit(3)", 3, ": its last line is: no data"),
    "a signal": ("import os; os.abort()", 134, "it was killed by SIGABRT after"),
    "a code of CANN": ("print('EI0006: no socket'); raise SystemExit(1)", 1, ": EI0006: HCCL "),
    "nothing": ("raise SystemExit(3)", 3, "it exited with status 3 after"),
}


@pytest.mark.parametrize(("method", "restarts"), [("ranktable", 1), ("once", 0)])
@pytest.mark.parametrize("end", ENDS)
def test_every_place_names_the_cause_in_the_same_words(supervised, end, method, restarts):
    source, code, said = ENDS[end]
    options = ("--standalone", "1", "--method", method, "--restarts", str(restarts))
    job = supervised(*options, "--restart-delay", "0", *python(source))
    assert job.end() == code
    last = job.events[-1]
    told = [*(event["cause"] for event in job.all("restart.scheduled"))]
    told.append(last["root_cause"].partition("\n")[0])
    assert len(told) == restarts + 1
    assert all(said in cause for cause in told)
    assert last["reason"].startswith(f"{told[-1]}; ")
    state = json.loads((job.log_dir / "modelarts-job-test-supervisor-job-test-0.json").read_text())
    assert [one["cause"] for one in state["generations"]] == told
    health = ctl("health", "--log-dir", str(job.log_dir)).stderr
    assert health.endswith(f"has ended with {code}: {told[-1]}\n")


def test_success_leaves_the_termination_log_empty(supervised, tmp_path):
    termination = tmp_path / "termination-log"
    termination.touch()
    job = supervised("--standalone", "1", "--termination-log", str(termination), "--", "true")
    assert job.end() == 0
    assert termination.read_text() == ""


def test_hangup_opens_the_logs_anew(supervised):
    source = (
        "import signal, time; heard = []\n"
        "signal.signal(signal.SIGUSR1, lambda *_: heard.append(1)); print('before', flush=True)\n"
        "while not heard: time.sleep(0.01)\n"
        "print('after')"
    )
    job = supervised("--standalone", "1", *python(source))
    job.wait_for("output", msg="before")
    moved = job.log_dir / "moved.txt"
    job.log(0).rename(moved)
    job.send(signal.SIGHUP)
    job.wait_for("signal.received")
    job.send(signal.SIGUSR1)
    assert job.end() == 0
    assert moved.read_text().endswith("before\n")
    assert job.log(0).read_text().endswith("after\n")


def test_the_text_console_is_for_people(supervised):
    read_end, write_end = os.pipe()
    job = supervised("--standalone", "2", "--console", "text", *python(FAIL), stdout=write_end)
    os.close(write_end)
    assert job.end() == 3
    text = b""
    while piece := os.read(read_end, 1 << 16):
        text += piece
    os.close(read_end)
    lines = text.decode().splitlines()
    assert "[rank 0] the cause" in lines or "[rank 1] the cause" in lines
    assert lines[-1] == "  the cause"
    assert any(" failed first, " in line for line in lines[-4:])


@pytest.mark.parametrize("console", ["raw", "none"])
def test_without_json_a_failure_is_told_on_stderr(supervised, console):
    read_end, write_end = os.pipe()
    job = supervised("--standalone", "1", "--console", console, *python(FAIL), stdout=write_end)
    os.close(write_end)
    assert job.end() == 3
    assert os.read(read_end, 1 << 16) == (b"the cause\n" if console == "raw" else b"")
    os.close(read_end)
    assert "rank 0 failed first" in job.stderr


def test_check_prints_the_plan_and_starts_nothing(supervised):
    read_end, write_end = os.pipe()
    table = DATA / "template2-one-card.json"
    options = ("--rank-table", str(table), "--check", "--pod-name", "jobxxxxxxxx-job-trainjob-0")
    job = supervised(*options, "--", "sleep", "600", stdout=write_end)
    os.close(write_end)
    assert job.end() == 0
    plan = json.loads(os.read(read_end, 1 << 20))
    os.close(read_end)
    (process,) = plan["processes"]
    assert process["argv"] == ["sleep", "600"]
    assert process["environment"]["DEVICE_ID"] == "0"
    assert plan["this_server"]["entry"] == "jobxxxxxxxx-job-trainjob-0"
    assert not (job.root / "modelarts" / "workspace").exists()
    assert list(job.log_dir.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--standalone", "1", "--", "no-such-program"), 127),
        (("--rank-table", "nowhere.json", "--", "true"), 75),
        (("--standalone", "99", "--", "true"), 64),
    ],
)
def test_check_ends_with_the_code_of_the_run(supervised, arguments, code):
    assert supervised("--check", *arguments).end() == code


def test_names_that_would_leave_the_log_directory_are_refused(supervised):
    job = supervised("--standalone", "1", "--", "true", environ={"MA_VJ_NAME": "../../etc/x"})
    assert job.end() == 64
    assert "MA_VJ_NAME" in job.stderr
    assert job.events[-1]["exit_code"] == 64


def test_an_option_that_does_nothing_is_told_at_the_start(supervised):
    job = supervised("--standalone", "1", "--reset-grace", "5", *python("pass"))
    assert job.end() == 0
    (told,) = job.all("diagnostic", source="settings")
    assert "--reset-grace does nothing without --follow-cluster" in told["message"]
    assert told["seq"] == 1
