"""MindSpore in two pods; the second is lost and replaced: workers and scheduler start anew."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.e2e.replaced_pod import ClusterFiles, PodJob, lose, survives_one_incident
from tests.two_servers import switched_servers

pytestmark = [pytest.mark.e2e_mindspore, pytest.mark.timeout(400)]

SCRIPT = Path(__file__).with_name("reduce_mindspore.py")
SECONDS = 200.0


def test_a_lost_node_costs_one_free_restart_of_workers_and_scheduler(supervised, tmp_path):
    if not Path(sys.executable).with_name("msrun").exists():
        pytest.skip("MindSpore is not installed")
    files, lost = ClusterFiles(tmp_path), tmp_path / "lost"
    options = ("--method", "mindspore", "--grace", "5")
    job = PodJob(supervised, tmp_path, files, *options, environ={}, deadline=SECONDS)
    command = (sys.executable, str(SCRIPT), "stay", str(lost))
    with switched_servers(3) as servers:
        files.complete_table(servers[:2], cards=1)
        pods = [job.start(server, *command) for server in servers[:2]]
        for rank, pod in enumerate(pods):
            pod.wait_for("output", msg=f"rank {rank} of 2: the sum is [3.]")
        first, second = pods
        lose(second, servers[1])
        assert not second.survivors()
        lost.touch()
        files.withdraw_table()
        first.wait_for("cluster.incident")
        new = job.start(servers[2], *command)
        new.wait_for("rank_table.waiting")
        first.wait_for("restart.scheduled")
        files.set_retry_time(1)
        files.complete_table((servers[0], servers[2]), cards=1)

        survives_one_incident(first)
        assert new.end() == 0
        assert "rank 0 of 2: the sum is [3.]" in first.said(0, generation=1)
        assert "rank 1 of 2: the sum is [3.]" in new.said(1)
        for generation in (0, 1):
            started = first.all("process.started", generation=generation)
            assert [process["rank"] for process in started] == [None, 0]
        assert not new.survivors()
