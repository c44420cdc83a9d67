"""What launchers write of their workers is found, and nothing of another job."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ascend_supervisor.collection.rank_logs import worker_logs
from tests.collection.collecting import Collecting


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for number, name in enumerate(
        (
            "job-7/msrun/node_0/generation_0/worker_0.log",
            "job-7/msrun/node_0/generation_1/scheduler.log",
            "job-7/torchrun/node_0/generation_0/none_x/attempt_0/3/error.json",
            "job-7/msrun/node_0/generation_1/model.ckpt",
            "job-8/msrun/node_0/generation_0/worker_0.log",
        )
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text")
        os.utime(path, (100.0 + number, 100.0 + number))
    return tmp_path


def test_the_newest_come_first_and_none_is_of_another_job_or_no_log(directory):
    collecting = Collecting()
    found = worker_logs(collecting.collector, [directory, directory], "job-7", 0.0)
    assert [one.name for one in found] == ["error.json", "scheduler.log", "worker_0.log"]
    assert collecting.left_out == {}


def test_what_was_written_before_the_job_began_is_of_another_job_of_that_name(directory):
    found = worker_logs(Collecting().collector, [directory], "job-7", 101.0)
    assert [one.name for one in found] == ["error.json", "scheduler.log"]


def test_where_no_launcher_wrote_any_nothing_is_told(tmp_path):
    collecting = Collecting()
    assert worker_logs(collecting.collector, [tmp_path], "job-7", 0.0) == []
    assert collecting.left_out == {}
