"""Pods of a MindSpore job of Ascend Operator: the Scheduler's, and a Worker's."""

from __future__ import annotations

import pytest

from tests.cluster.test_operator import MINDSPORE, SCHEDULER
from tests.rank_tables import TEMPLATE_1, data
from tests.running import python

TELL = """\
import os, sys
names = ("MS_ROLE", "MS_SCHED_HOST", "DEVICE_ID", "RANK_ID", "RANK_TABLE_FILE")
print(*[os.environ.get(name) for name in names])
"""


@pytest.mark.parametrize("code", [0, 3])
def test_the_pod_of_the_scheduler_ends_as_its_command_does(supervised, tmp_path, code):
    """A rank table that is mounted there says nothing of this pod."""
    table = tmp_path / "hccl.json"
    table.write_bytes(data(TEMPLATE_1))
    environ = {**SCHEDULER, "RANK_TABLE_FILE": str(table)}
    job = supervised(*python(f"{TELL}sys.exit({code})"), environ=environ)
    assert job.end() == code
    (started,) = job.all("process.started")
    assert (started["rank"], started["program"]) == (None, "the scheduler")
    (line,) = job.all("output")
    assert line["msg"] == "MS_SCHED 172.16.0.5 0 None None"
    assert job.wait_for("supervisor.started")["cluster"] == "operator"


def test_workers_whose_scheduler_is_elsewhere_are_not_restarted_alone(supervised):
    only = {**MINDSPORE, "MS_WORKER_NUM": "2", "MS_NODE_RANK": "0"}
    fails = f"{TELL}sys.exit(int(os.environ['RANK_ID']))"
    job = supervised("--restarts", "3", *python(fails), environ=only)
    assert job.end() == 1
    assert job.said(1) == ["MS_WORKER 10.96.0.9 1 1 None"]
    assert len(job.all("generation.started")) == 1
    reason = job.wait_for("supervisor.exited")["reason"]
    assert reason.endswith("; processes on other servers cannot be restarted from here")
