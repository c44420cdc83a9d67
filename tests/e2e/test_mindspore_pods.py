"""Real MindSpore in three pods of Ascend Operator: a Scheduler without NPUs, and two Workers.

The Workers know the Scheduler by the address of a service, which is not the Scheduler's own.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.pods import PORT, SERVICE, mindspore_scheduler, mindspore_worker
from tests.running import Running
from tests.two_servers import in_pods, three_servers

pytestmark = [pytest.mark.e2e_mindspore, pytest.mark.timeout(300)]

SCRIPT = Path(__file__).with_name("reduce_mindspore.py")
SECONDS = 200.0
"""For each end: MindSpore needs half a minute to a minute to miss a process."""
Reduce = Callable[..., list[Running]]


@pytest.fixture
def reduce(supervised, tmp_path):
    """``reduce(*arguments)`` runs the script in the Scheduler's pod and in two of one NPU each."""
    if not Path(sys.executable).with_name("msrun").exists():
        pytest.skip("MindSpore is not installed")
    with three_servers(SERVICE, int(PORT)) as servers:
        scheduler = mindspore_scheduler(1, 2, npus=False)
        pods = [
            {**scheduler, "MS_SCHED_HOST": servers[0].address},
            mindspore_worker(1, 2, 0),
            mindspore_worker(1, 2, 1),
        ]

        def run(*arguments: str) -> list[Running]:
            command = ("--", sys.executable, str(SCRIPT), *arguments)
            return in_pods(servers, supervised, tmp_path, pods, *command, deadline=SECONDS)

        yield run


def test_ranks_of_two_pods_add_up(reduce: Reduce):
    scheduler, *workers = reduce()
    assert [job.end() for job in (scheduler, *workers)] == [0, 0, 0]
    for rank, job in enumerate(workers):
        assert f"rank {rank} of 2: the sum is [3.]" in job.said(rank)
    (started,) = scheduler.all("process.started")
    assert started["rank"] is None
    for job in (scheduler, *workers):
        assert not job.survivors()


def test_a_worker_that_fails_ends_all_pods(reduce: Reduce):
    scheduler, other, failing = reduce("kill")
    assert failing.end() == 137
    assert failing.events[-1]["root_cause"].startswith("rank 1 failed first, in generation 0")
    for job in (scheduler, other):
        assert job.end() not in {0, 75}
        assert job.events[-1]["root_cause"]
        assert not job.survivors()
    assert "missed rank 1" in scheduler.events[-1]["root_cause"]


def test_a_scheduler_that_is_told_to_stop_ends_all_pods(reduce: Reduce):
    scheduler, *workers = reduce("stay")
    for rank, job in enumerate(workers):
        job.wait_for("output", msg=f"rank {rank} of 2: the sum is [3.]")
    scheduler.send(signal.SIGTERM)
    assert scheduler.end() == 143
    for job in workers:
        assert job.end() not in {0, 75}
        assert SERVICE in job.events[-1]["root_cause"]
        assert not job.survivors()
