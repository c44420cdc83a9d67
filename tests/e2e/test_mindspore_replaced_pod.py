"""MindSpore trains in two pods, and the second is replaced: workers and scheduler start anew."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.e2e.replaced_pod import (
    CARDS,
    ClusterFiles,
    PodJob,
    begun,
    digests,
    lose,
    survives_one_incident,
)
from tests.ports import free_port
from tests.two_servers import switched_servers

pytestmark = [pytest.mark.e2e_mindspore, pytest.mark.timeout(400)]

TRAIN = Path(__file__).with_name("train_mindspore.py")
VICTIM, STEP = 1, 6
"""The rank of the second pod."""
SECONDS = 200.0


def test_a_lost_node_costs_one_free_restart_of_workers_and_scheduler_and_no_bit(
    supervised, tmp_path
):
    if not Path(sys.executable).with_name("msrun").exists():
        pytest.skip("MindSpore is not installed")
    # At the same time, as MindSpore waits more than it computes.
    undisturbed = supervised(
        *("--standalone", str(2 * CARDS), "--method", "mindspore"),
        *("--master-port", str(free_port()), "--", sys.executable, str(TRAIN)),
        str(tmp_path / "undisturbed.ckpt"),
        root=make(tmp_path / "undisturbed"),
        deadline=SECONDS,
    )
    files = ClusterFiles(tmp_path)
    options = ("--method", "mindspore", "--grace", "5")
    job = PodJob(supervised, tmp_path, files, *options, environ={}, deadline=SECONDS)
    command = (sys.executable, str(TRAIN), str(tmp_path / "checkpoint.ckpt"))
    with switched_servers(3) as servers:
        files.complete_table(servers[:2], CARDS)
        first = job.start(servers[0], *command)
        second = job.start(servers[1], *command, str(VICTIM), str(STEP))
        second.wait_for("output", msg=f"stops in step {STEP}")
        written = (event["msg"] for event in first.each("output"))
        next(line for line in written if line.startswith(f"step {STEP}: "))
        lose(second, servers[1])
        assert not second.survivors()
        files.withdraw_table()
        first.wait_for("cluster.incident")
        new = job.start(servers[2], *command)
        new.wait_for("rank_table.waiting")
        first.wait_for("restart.scheduled")
        files.set_retry_time(1)
        files.complete_table((servers[0], servers[2]), CARDS)

        survives_one_incident(first)
        assert new.end() == 0
    assert begun(first, 1) | begun(new, 0) == {str(STEP)}
    for generation in (0, 1):
        started = first.all("process.started", generation=generation)
        assert [process["rank"] for process in started] == [None, 0]
    assert not new.survivors()
    assert undisturbed.end() == 0
    assert not undisturbed.all("restart.scheduled")
    assert digests(first, 1) | digests(new, 0) == digests(undisturbed, 0, 2 * CARDS)


def make(directory: Path) -> Path:
    directory.mkdir()
    return directory
