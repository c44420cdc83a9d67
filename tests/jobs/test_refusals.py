"""What is refused before a rank is started, as whoever started us hears of it."""

from __future__ import annotations

import pytest

from tests.cluster.test_operator import SCHEDULER
from tests.rank_tables import TEMPLATE_1, data
from tests.running import python


@pytest.mark.parametrize("check", [(), ("--check",)])
def test_a_scheduler_pod_beside_a_table_starts_no_ranks_of_another_pod(supervised, tmp_path, check):
    table = tmp_path / "hccl.json"
    table.write_bytes(data(TEMPLATE_1))
    words = ("--rank-table", str(table), "--method", "ranktable")
    job = supervised(*check, *words, *python("pass"), environ=SCHEDULER)
    assert job.end() == 64
    assert job.stderr.count("MS_ROLE=MS_SCHED") == 1
    assert [event["event"] for event in job.events] == ["supervisor.exited"]


@pytest.mark.parametrize("check", [(), ("--check",)])
def test_a_pod_of_several_does_not_train_alone(supervised, check):
    environ = {"WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"}
    job = supervised(*check, "--standalone", "1", *python("pass"), environ=environ)
    assert job.end() == 64
    assert job.stderr.count("WORLD_SIZE=16 with LOCAL_WORLD_SIZE=8") == 1
    assert [event["event"] for event in job.events] == ["supervisor.exited"]


@pytest.mark.parametrize(
    "words",
    [
        ("--restarts", "three", "--", "true"),
        ("--check", "--standalone", "1", "--", "no-such-program"),
        ("--standalone", "1", "--method", "torchrun", "--", "true"),
    ],
    ids=["a setting", "a plan", "a cluster"],
)
def test_a_refusal_is_told_where_console_says(supervised, tmp_path, words):
    """For people, once: on stdout."""
    environ = {"WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"} if "torchrun" in words else {}
    with (tmp_path / "stdout").open("wb") as stdout:
        job = supervised("--console", "text", *words, environ=environ, stdout=stdout.fileno())
        code = job.end()
    (line,) = (tmp_path / "stdout").read_text().splitlines()
    assert f"ending with exit code {code}: " in line
    assert job.stderr == ""


@pytest.mark.parametrize("method", ["torchrun", "msrun", "mpirun"])
def test_a_launcher_that_is_not_installed_is_one_sentence_and_127(supervised, tmp_path, method):
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "setsid").symlink_to("/usr/bin/setsid")
    (programs / "python").write_text("#!/bin/sh\n")
    (programs / "python").chmod(0o755)
    words = ("--standalone", "1", "--method", method, "--", "python", "train.py")
    job = supervised(*words, environ={"PATH": str(programs), "HOME": str(tmp_path)})
    assert job.end() == 127
    assert not job.all("process.started")
    (sentence,) = job.stderr.splitlines()
    assert method in sentence
    assert "was not found in PATH" in sentence
