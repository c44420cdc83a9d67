"""What ascend-supervisorctl asks of real supervisors: probes, stop, restart, dump, hints."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping

import pytest

from ascend_supervisor.ctl.finding import hints
from tests.ctl.calling import ENVIRON, PROGRAM, ctl, refused
from tests.jobs.test_ctl import UP, beside, state_path, until_named, until_running
from tests.running import DEADLINE_SECONDS, Running, python, wait_until

STUBBORN = (
    "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "os.write(1, b'up\\n'); time.sleep(600)"
)


def until_ready(environ: Mapping[str, str]) -> None:
    wait_until(lambda: ctl("ready", environ=environ).returncode == 0)


def test_a_job_that_waits_or_has_ended_is_not_ready(supervised, tmp_path):
    table = tmp_path / "table.json"
    job = supervised("--rank-table", str(table), *python(UP))
    job.wait_for("rank_table.waiting")
    wait_until(state_path(job).exists)
    assert "waiting" in refused(1, "ready", environ=beside(job))
    assert ctl("health", environ=beside(job)) == (0, "", "")
    job.send(signal.SIGTERM)
    assert job.end() == 143
    told = refused(1, "ready", environ=beside(job))
    assert told.endswith("has ended with 143: told to stop by SIGTERM\n")


def test_ready_is_0_while_all_ranks_run(supervised):
    job = supervised("--standalone", "2", *python(UP))
    until_running(job, 2)
    until_ready(beside(job))
    assert ctl("ready", environ=beside(job)) == (0, "", "")


def test_a_stopped_supervisor_is_not_healthy_and_is_again_when_it_goes_on(supervised):
    job = supervised("--standalone", "1", *python(UP))
    until_running(job, 1)
    job.send(signal.SIGSTOP)
    sentence = refused(1, "health", environ=beside(job))
    assert f"kill -CONT {job.pid} continues it" in sentence
    found = ctl("status", environ=beside(job))
    assert found.returncode == 0
    assert "phase          running\n" in found.stdout
    assert "did not answer within 5 s" in found.stderr
    job.send(signal.SIGCONT)
    assert ctl("health", environ=beside(job)) == (0, "", "")


def test_stop_ends_the_job_and_waits_for_the_end(supervised):
    job = supervised("--standalone", "2", *python(UP))
    until_running(job, 2)
    found = ctl("stop", "--wait", environ=beside(job))
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout.splitlines()[-1].endswith("; ending with exit code 143")
    assert job.end() == 143
    assert not job.survivors()
    assert "has ended with 143 already" in refused(1, "stop", environ=beside(job))


def test_stop_with_a_grace_of_its_own(supervised):
    job = supervised("--standalone", "1", "--grace", "600", *python(STUBBORN))
    until_running(job, 1)
    assert ctl("stop", "--grace", "100ms", environ=beside(job)).returncode == 0
    assert job.end() == 143


def test_restart_starts_the_next_generation_and_charges_nothing(supervised):
    job = supervised("--standalone", "1", "--restart-delay", "0", *python(UP))
    until_running(job, 1)
    until_ready(beside(job))
    found = ctl("restart", environ=beside(job))
    assert (found.returncode, found.stderr) == (0, "")
    job.wait_for("generation.started", generation=1)
    until_ready(beside(job))
    words = ctl("status", environ=beside(job)).stdout.split()
    assert "charged)" in words
    assert f"{os.getpid()}" in words


def test_an_act_that_is_declined_says_why_and_gives_1(supervised, tmp_path):
    job = supervised("--rank-table", str(tmp_path / "table.json"), *python(UP))
    job.wait_for("rank_table.waiting")
    wait_until(state_path(job).exists)
    for command in ("restart", "dump"):
        assert "no generation runs" in refused(1, command, environ=beside(job))


def test_a_supervisor_that_was_killed_cannot_be_asked(supervised):
    job = supervised("--standalone", "1", *python(UP))
    until_running(job, 1)
    job.send(signal.SIGKILL)
    job.end()
    for command in ("stop", "restart", "dump", "ready"):
        assert "is no more" in refused(1, command, environ=beside(job))


def test_places_may_stand_before_or_after_the_command(supervised):
    job = supervised("--standalone", "1", *python(UP))
    until_named(job, 1)
    names = {name: value for name, value in beside(job).items() if name != "MA_MOUNT_PATH"}
    for place in (["--log-dir", str(job.log_dir)], ["--state-file", str(state_path(job))]):
        assert ctl(*place, "health", environ=names) == (0, "", "")
        assert ctl("health", *place, environ=names) == (0, "", "")


def test_somebody_who_names_nothing_is_told_which_supervisor_runs_here(supervised, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    job = supervised("--standalone", "1", "--log-dir", str(elsewhere), *python(UP))
    job.wait_for("output", rank=0)
    wait_until(lambda: list(elsewhere.glob("*-supervisor-*.json")))
    (state,) = elsewhere.glob("*-supervisor-*.json")
    environ = {"ASCEND_SUPERVISOR_LOG_DIR": str(tmp_path / "none"), "POD_NAME": "pod"}
    missing = tmp_path / "none" / "job-supervisor-pod.json"
    told = ctl("status", environ=environ)
    assert told.returncode == 1
    assert f"there is no state file {missing}: " in told.stderr
    assert "name the supervisor's own with --log-dir, --state-file or " in told.stderr
    # Other tests may run many supervisors beside this one.
    expected = f"found instead: {state} (of process {job.pid}, which runs)"
    assert expected in hints(missing, environ, most=10_000)


def test_changes_are_printed_where_stdout_is_no_terminal(supervised):
    job = supervised("--standalone", "1", "--restart-delay", "0", *python(UP))
    until_running(job, 1)
    until_ready(beside(job))
    with subprocess.Popen(
        [*PROGRAM, "status", "--watch", "--json"],
        env={**ENVIRON, **beside(job)},
        stdout=subprocess.PIPE,
        text=True,
    ) as watching:
        assert watching.stdout
        assert '"phase":"running"' in watching.stdout.readline()
        assert ctl("stop", environ=beside(job)).returncode == 0
        lines = watching.stdout.readlines()
        assert watching.wait(DEADLINE_SECONDS) == 0
    assert '"phase":"ended"' in lines[-1]
    assert len(lines) < 10
    assert job.end() == 143


@pytest.mark.parametrize("option", [[], ["--json"]])
def test_watching_a_job_that_has_ended_shows_it_once(supervised, option):
    job: Running = supervised("--standalone", "1", *python("pass"))
    assert job.end() == 0
    found = ctl("status", "--watch", *option, environ=beside(job))
    once = ctl("status", environ=beside(job)).stdout
    assert found.returncode == 0
    assert found.stdout.count("\n") == 1 if option else found.stdout == f"{once}\n"
