"""PyTorch trains in two pods; the second is lost in the middle of a step, and replaced."""

from __future__ import annotations

import importlib.util
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.e2e import __file__ as here
from tests.e2e.replaced_pod import (
    CARDS,
    ClusterFiles,
    PodJob,
    begun,
    delete,
    digests,
    kill,
    lose,
    survives_one_incident,
)
from tests.running import Running
from tests.two_servers import Server, switched_servers

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(400),
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None,
        reason="torch is not installed: .venv/bin/pip install --group e2e",
    ),
]

TRAIN = Path(here).with_name("train_ddp.py")
VICTIM, STEP = 1, 6
"""The rank of the second pod."""
STOPPED = (str(VICTIM), str(STEP), str(int(signal.SIGSTOP)))
SECONDS = 200.0
"""For whatever is waited for: each import of torch takes seconds."""
ENVIRON = {"CHECKPOINT_STEPS": "1", "OMP_NUM_THREADS": "1"}
LOST = "it lost the connection to another rank"
Supervised = Callable[..., Running]


@pytest.fixture
def servers() -> Iterator[tuple[Server, ...]]:
    """Those of the first two pods, and the one that takes the second one's place."""
    with switched_servers(3) as made:
        yield made


class Training(PodJob):
    """The training of one job; pods share its checkpoint."""

    def __init__(self, supervised: Supervised, root: Path, *options: str) -> None:
        files = ClusterFiles(root)
        super().__init__(supervised, root, files, *options, environ=ENVIRON, deadline=SECONDS)
        self._command = (sys.executable, str(TRAIN), str(root / "checkpoint.pt"))

    def pod(self, server: Server, *options: str) -> Running:
        return self.start(server, *self._command, options=options)

    def pod_that_stops(self, server: Server) -> Running:
        """Its rank stops itself in the middle of a step, so that the job stays in it."""
        return self.start(server, *self._command, *STOPPED)


def test_a_lost_node_costs_one_free_restart_and_no_bit(
    undisturbed_digests, servers, supervised, tmp_path
):
    """The rank of the other pod hangs in the collective; nothing tells them of the loss."""
    job = Training(supervised, tmp_path)
    first, second = begin(job, servers)
    lose(second, servers[1])
    assert not second.survivors()
    job.files.withdraw_table()
    new = replacement(job, servers, first)
    job.files.set_retry_time(1)
    job.files.complete_table((servers[0], servers[2]), CARDS)

    incident, restart = survives_one_incident(first)
    assert incident["trigger"] == "table_withdrawn"
    assert restart["cause"] == f"the cluster recovers: {incident['reason']}"
    assert first.all("generation.ended")[0]["outcome"] == "fault"
    assert not first.all("process.exited", first_failure=True)
    ends_as(undisturbed_digests, first, new)


@pytest.mark.parametrize(
    ("method", "end"),
    [("ranktable", kill), ("torchrun", delete)],
    ids=["killed", "deleted, with torchrun"],
)
def test_a_pod_whose_connections_end_costs_one_free_restart_and_no_bit(
    method, end, undisturbed_digests, servers, supervised, tmp_path
):
    """So the rank of the other pod fails before the cluster says anything."""
    job = Training(supervised, tmp_path, "--method", method)
    first, second = begin(job, servers)
    end(second)
    assert not second.survivors()
    first.wait_for("process.exited", first_failure=True)
    job.files.withdraw_table()
    new = replacement(job, servers, first)
    job.files.complete_table((servers[0], servers[2]), CARDS)
    for pod, generation in ((first, 1), (new, 0)):
        pod.wait_for("generation.started", generation=generation)
    job.files.set_retry_time(1)  # while the ranks are importing torch: it is the same incident

    incident, restart = survives_one_incident(first)
    assert incident["trigger"] == "table_withdrawn"
    assert restart["cause"] == f"the cluster recovers: {incident['reason']}"
    assert first.all("generation.ended")[0]["outcome"] == "crashed"
    ends_as(undisturbed_digests, first, new)


def test_a_survivor_that_hears_nothing_from_the_cluster_ends_with_its_own_failure(
    servers, supervised, tmp_path
):
    job = Training(supervised, tmp_path)
    first, second = begin(job, servers, "--cluster-verdict", "2")
    delete(second)
    assert first.end() == 1
    assert not first.all("cluster.incident")
    assert not first.all("restart.scheduled")
    head, _, lines = first.events[-1]["root_cause"].partition("\n")
    assert head.startswith("rank 0 failed first, in generation 0: it exited with status 1")
    assert head.endswith(f": a consequence: {LOST}; look at the ranks on {servers[1].address}")
    assert re.search("Connection (closed|reset) by peer", lines)
    assert not first.survivors()


def begin(job: Training, servers: tuple[Server, ...], *options: str) -> tuple[Running, Running]:
    """Both pods, in the middle of a step, with all before it in the checkpoint."""
    job.files.complete_table(servers[:2], CARDS)
    first, second = job.pod(servers[0], *options), job.pod_that_stops(servers[1])
    second.wait_for("output", msg=f"SIGSTOP in step {STEP}")
    written = (event["msg"] for event in first.each("output"))
    next(line for line in written if line.startswith(f"step {STEP}: "))
    return first, second


def replacement(job: Training, servers: tuple[Server, ...], first: Running) -> Running:
    """The pod in place of the second; both pods wait for a new table."""
    first.wait_for("cluster.incident")
    new = job.pod(servers[2])
    new.wait_for("rank_table.waiting")
    first.wait_for("restart.scheduled")
    return new


def ends_as(undisturbed_digests: Sequence[str], first: Running, new: Running) -> None:
    """It went on where it was, and its parameters are those of one undisturbed server."""
    assert new.end() == 0
    assert begun(first, 1) | begun(new, 0) == {str(STEP)}
    assert digests(first, 1) | digests(new, 0) == set(undisturbed_digests)
    before, after = (ready["sha256"] for ready in first.all("rank_table.ready"))
    assert before != after
    assert [ready["sha256"] for ready in new.all("rank_table.ready")] == [after]
    assert not new.all("cluster.incident")
    assert not new.survivors()
