"""--server-check in real jobs: a server that is not fit starts no rank."""

from __future__ import annotations

import os
import shlex
import signal

import pytest

from tests.cluster.test_kubeflow_pods import TWO_NPUS
from tests.rank_tables import WITHOUT_ADDRESSES, data
from tests.running import python, wait_until

NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="a /dev of our own needs root")


def test_a_fit_server_is_not_mentioned(supervised):
    job = supervised("--standalone", "2", "--log-level", "debug", *python(""))
    assert job.end() == 0
    assert job.all("server.checked") == []


def test_a_command_that_succeeds_is_fit_and_one_that_fails_ends_the_job_before_any_rank(supervised):
    says = shlex.join(("sh", "-c", "echo NPU 3: Fail --token=abc; exit $0", "0"))
    job = supervised("--standalone", "1", "--server-check", says, *python(""))
    assert job.end() == 0
    assert job.all("server.checked") == []
    job = supervised(
        *("--standalone", "1", "--restarts", "3"), "--server-check", f"{says[:-1]}4", *python("")
    )
    assert job.end() == 69
    output = job.log_dir / "modelarts-job-test-server-check-job-test-0.txt"
    (event,) = job.all("server.checked")
    assert (event["level"], event["verdict"], event["output"]) == ("warning", "unfit", str(output))
    (reason,) = event["unfit"]
    assert reason == (
        "--server-check: found that sh exited with status 4 (its last output: NPU 3: Fail "
        f"--token=***), expected status 0; see {output}, or start it elsewhere"
    )
    assert output.read_text() == "--server-check:\nNPU 3: Fail --token=abc\n"
    assert job.events[-1]["root_cause"].startswith("this server is not fit for the job: --server-")
    assert job.events[-1]["generations"] == 0
    assert job.all("generation.started") == []


def test_a_command_with_rank_runs_for_each_rank_in_its_environment(supervised):
    says = shlex.join(("sh", "-c", "echo $0 is $RANK; test $0 != 1", "{rank}"))
    job = supervised("--standalone", "3", "--server-check", says, *python(""))
    assert job.end() == 69
    (event,) = job.all("server.checked")
    (reason,) = event["unfit"]
    assert reason.startswith("--server-check, rank 1: found that sh exited with status 1 (its last")
    output = job.log_dir / "modelarts-job-test-server-check-job-test-0.txt"
    assert "--server-check, rank 2:\n2 is 2\n" in output.read_text()


def test_it_runs_for_each_rank_too_where_a_launcher_starts_them(supervised, tmp_path):
    says = shlex.join(("sh", "-c", "echo $0 is $RANK, $LOCAL_RANK of $WORLD_SIZE; test $0 != 1"))
    table = tmp_path / "table.json"
    table.write_bytes(data(WITHOUT_ADDRESSES))
    options = ("--rank-table", str(table), "--node-rank", "0", "--method", "once")
    job = supervised(*options, "--server-check", f"{says} {{rank}}", *python(""))
    assert job.end() == 69
    (event,) = job.all("server.checked")
    (reason,) = event["unfit"]
    assert reason.startswith("--server-check, rank 1: found that sh exited with status 1 (its last")
    output = (job.log_dir / "modelarts-job-test-server-check-job-test-0.txt").read_text()
    assert "--server-check, rank 2:\n2 is 2, 2 of 4\n" in output
    assert job.all("process.started") == []


def test_it_is_refused_where_the_ranks_are_not_known(supervised):
    job = supervised("--method", "once", "--server-check", "true {rank}", *python(""))
    assert job.end() == 64
    assert job.events[-1]["reason"] == (
        "--server-check: {rank} stands for each rank of this server, and nothing tells which these "
        "are; leave {rank} out, and the command runs once"
    )


def test_a_command_that_hangs_does_not_hold_up_a_stop_and_nothing_of_it_is_left(supervised):
    hangs = shlex.join(("sh", "-c", "setsid sleep 1000 & sleep 1000"))
    job = supervised("--standalone", "1", "--server-check", hangs, *python(""))
    job.wait_for("supervisor.started")
    wait_until(lambda: len(job.pids()) >= 3)
    job.send(signal.SIGTERM)
    assert job.end() == 143
    wait_until(lambda: job.survivors() == [])


@pytest.mark.parametrize(("command", "status"), [("nosuchcmd", 127), ("/etc/passwd", 126)])
def test_a_command_that_cannot_be_executed_is_refused(supervised, command, status):
    job = supervised("--standalone", "1", "--server-check", command, *python(""))
    assert job.end() == status
    assert job.events[-1]["reason"].startswith("--server-check: ")


@NEEDS_ROOT
def test_a_container_with_fewer_npus_than_its_entry_is_not_fit(supervised, tmp_path):
    devices, table = tmp_path / "dev", tmp_path / "table.json"
    devices.mkdir()
    table.write_bytes(data(WITHOUT_ADDRESSES))
    mount = ("unshare", "--mount", "sh", "-e", "-c", TWO_NPUS, "sh", str(devices))
    job = supervised("--rank-table", str(table), "--node-rank", "0", *python(""), before=mount)
    assert job.end() == 69
    assert "devices: found 2 NPUs in /dev (0, 1), expected 4" in job.events[-1]["reason"]
