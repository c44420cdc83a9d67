"""A real training on two servers that agree through etcd: PyTorch's DDP, a rank on each."""

from __future__ import annotations

import importlib.util
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.e2e import __file__ as here
from tests.peers.cabled_servers import Cluster, cabled_servers
from tests.running import Running

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(240),
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None,
        reason="torch is not installed: .venv/bin/pip install --group e2e",
    ),
]

SPARE = 2
LOST = ("1", "6")
"""The rank that is lost, and in which step."""
SCRIPT = Path(here).with_name("train_ddp.py")


@pytest.fixture
def cluster(tmp_path: Path, supervised: Callable[..., Running]) -> Iterator[Cluster]:
    with cabled_servers(tmp_path, 2, 1, supervised, spares=1) as made:
        yield made


def test_a_training_that_lost_a_rank_then_two_supervisors_ends_bit_identical(
    undisturbed_digests, cluster
):
    """Rank 1 in step 6, its supervisor in step 10, and in step 10 the one that took its place.

    The two ranks of one server, where nothing happened, end with the same parameters.
    """
    servers = [start(cluster, index, *LOST) for index in (0, 1)]
    assert servers[1].end() == 128 + signal.SIGKILL
    servers[1] = start(cluster, 1, *LOST)  # it comes back
    servers[1].wait_for("generation.started", generation=2)
    assert servers[1].end() == 128 + signal.SIGKILL
    servers[1] = start(cluster, SPARE, *LOST)
    assert digests(ended(servers), generation=3) == undisturbed_digests
    for generation in (2, 3):
        assert (
            begun(servers, generation)[0] == f"generation {generation} of 2 ranks begins at step 8"
        )
    restarts = servers[0].all("restart.scheduled")
    assert restarts[0]["cause"] == "server 1: rank 1 was killed by SIGKILL"
    assert [restart["restarts_left"] for restart in restarts] == [2, 1, 0]
    assert not servers[0].survivors()
    assert not servers[1].survivors()


def start(cluster: Cluster, index: int, *victim: str) -> Running:
    return cluster.start(
        index,
        *("--", sys.executable, str(SCRIPT), str(cluster.root / "checkpoint.pt"), *victim),
        job="training",
        environ={"OMP_NUM_THREADS": "1", "ORPHAN": "1", "ORPHANED_AT": "10"},
    )


def ended(servers: Sequence[Running]) -> Sequence[Running]:
    """After all of them have succeeded."""
    assert [server.end() for server in servers] == [0, 0], servers[0].stderr
    return servers


def begun(servers: Sequence[Running], generation: int) -> list[str]:
    """Where every rank began."""
    return said(servers, generation, "generation ")


def digests(servers: Sequence[Running], generation: int) -> list[str]:
    """What every rank's parameters were in the end."""
    told = "parameters "
    return [line.removeprefix(told) for line in said(servers, generation, told)]


def said(servers: Sequence[Running], generation: int, beginning: str) -> list[str]:
    return [
        event["msg"]
        for server in servers
        for event in server.all("output", generation=generation)
        if event["msg"].startswith(beginning)
    ]
