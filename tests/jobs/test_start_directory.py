"""Where the ranks of a whole job start, and what is made for them."""

from __future__ import annotations

import json
import os

import pytest

from tests.running import Running, python

SAYS_WHERE = python("import os; print(os.getcwd())")


def where(job: Running) -> list[list[str]]:
    assert job.end() == 0, job.stderr
    return [job.said(rank) for rank in range(2)]


def test_without_a_cluster_ranks_start_where_we_were_started(supervised, tmp_path):
    assert where(supervised("--standalone", "2", *SAYS_WHERE)) == [[str(tmp_path)]] * 2
    assert not (tmp_path / "modelarts" / "workspace").exists()


@pytest.mark.parametrize(
    ("options", "place", "names"),
    [
        (("--rank-dir", "device"), "modelarts/workspace", ["device0", "device1"]),
        (("--rank-dir", "rank"), "modelarts/workspace", ["rank0", "rank1"]),
        (("--work-dir", "work"), "work", ["device0", "device1"]),
    ],
)
def test_ranks_start_apart_on_request(supervised, tmp_path, options, place, names):
    job = supervised("--standalone", "2", *options, *SAYS_WHERE)
    assert where(job) == [[str(tmp_path / place / name)] for name in names]


def test_a_command_beside_us_is_found(supervised, tmp_path):
    program = tmp_path / "run"
    program.write_text("#!/bin/sh\necho found\n")
    program.chmod(0o755)
    assert where(supervised("--standalone", "2", "--", "./run")) == [["found"]] * 2


@pytest.mark.skipif(os.geteuid() != 0, reason="to give a directory to somebody else needs root")
def test_the_directory_that_we_were_started_in_may_be_anybodys(supervised, tmp_path):
    """One that we make must not be planted; this one was chosen by whoever started us."""
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o1777)
    home = open_to_all / "home"
    (home / "modelarts" / "log").mkdir(parents=True)
    os.chown(home, 4321, -1)
    logs = ("--log-dir", str(tmp_path / "log"))
    options = ("--standalone", "2", *logs, *SAYS_WHERE)
    job = supervised(*options, root=home, environ={"MA_MOUNT_PATH": ""})
    assert where(job) == [[str(home)]] * 2


def test_the_plan_says_where(supervised, tmp_path):
    with (tmp_path / "plan").open("wb") as plan:
        options = ("--standalone", "2", "--rank-dir", "rank", "--check")
        assert supervised(*options, "--", "true", stdout=plan.fileno()).end() == 0
    processes = json.loads((tmp_path / "plan").read_text())["processes"]
    work = tmp_path / "modelarts" / "workspace"
    assert [process["directory"] for process in processes] == [f"{work}/rank0", f"{work}/rank1"]


@pytest.mark.parametrize("check", [(), ("--check",)], ids=["a run", "a plan"])
@pytest.mark.parametrize("method", ["ranktable", "torch-ddp"])
@pytest.mark.parametrize("words", [("python3", "run"), ("sh", "run"), ("./run",)])
def test_a_script_that_ranks_would_not_find_is_refused(supervised, tmp_path, check, method, words):
    """It is beside us, and ranks start elsewhere: a restart would not help."""
    script = tmp_path / "run"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    options = ("--standalone", "1", "--method", method, "--rank-dir", "device", *check)
    job = supervised(*options, "--restarts", "3", "--", *words)
    assert job.end() == 127
    (line,) = job.stderr.splitlines()
    assert str(tmp_path / "modelarts" / "workspace" / "device0") in line
    assert f"there is {script}: give --rank-dir same" in line
    assert not job.all("generation.started")


def test_torchrun_is_told_of_a_script_that_it_would_not_find(supervised, tmp_path):
    (tmp_path / "train.py").touch()
    options = ("--standalone", "1", "--method", "torchrun", "--rank-dir", "device")
    job = supervised(*options, "--", "train.py")
    assert job.end() == 127
    assert f"there is {tmp_path / 'train.py'}: give --rank-dir same" in job.stderr


def test_a_script_that_is_nowhere_is_left_to_its_interpreter(supervised):
    job = supervised("--standalone", "1", "--rank-dir", "device", "--", "python3", "absent.py")
    assert job.end() == 2
    assert "can't open file" in job.said(0)[0]
