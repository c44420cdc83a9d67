"""Real PyTorch in two pods that have variables and no rank table; the leader is a service."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e import __file__ as here
from tests.pods import SERVICE, Variables, pytorch, trainer_v2
from tests.running import Running
from tests.two_servers import Server, add_second_address, in_pods, two_servers

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None,
        reason="torch is not installed: .venv/bin/pip install --group e2e",
    ),
]

SCRIPT = Path(here).with_name("train_ddp.py")
CARDS = 1
Train = Callable[..., list[Running]]


@pytest.fixture
def servers() -> Iterator[tuple[Server, Server]]:
    with two_servers() as made:
        add_second_address(SERVICE, made[0], made[1:])
        yield made


@pytest.fixture
def train(servers, supervised, tmp_path) -> Train:
    """``train(pods, *options)`` runs a rank in each of both pods."""

    def start(pods: list[Variables], *options: str) -> list[Running]:
        script = (sys.executable, str(SCRIPT), str(tmp_path / "checkpoint.pt"))
        pods = [{**pod, "OMP_NUM_THREADS": "1"} for pod in pods]
        return in_pods(servers, supervised, tmp_path, pods, *options, "--", *script, deadline=200.0)

    return start


def of_the_operator() -> list[Variables]:
    return [pytorch(CARDS, 2, node) for node in range(2)]


def of_kubeflow() -> list[Variables]:
    reached = {"PET_MASTER_ADDR": SERVICE}
    return [{**trainer_v2(CARDS, 2, node), **reached} for node in range(2)]


BEGINS = re.compile(r"generation 0 of 2 ranks begins at step 0")
DIGEST = re.compile(r"parameters ([0-9a-f]{64})")


def told(job: Running, what: re.Pattern[str]) -> list[str]:
    """What the pod's ranks said of this; below torchrun they share a pipe, and so lines."""
    return what.findall("\n".join(event["msg"] for event in job.all("output")))


@pytest.mark.parametrize(
    ("pods", "options"),
    [
        (of_the_operator(), ()),
        (of_the_operator(), ("--method", "torchrun")),
        (of_kubeflow(), ("--method", "torchrun")),  # which reads PET_*, too
    ],
    ids=["env://", "torchrun", "torchrun of Kubeflow"],
)
def test_ranks_of_two_pods_train_as_one_job(train, pods, options):
    jobs = train(pods, *options)
    assert [job.end() for job in jobs] == [0, 0]
    digests = []
    for job in jobs:
        assert len(told(job, BEGINS)) == CARDS
        digests += told(job, DIGEST)
        assert not job.survivors()
    assert len(digests) == 2 * CARDS
    assert len(set(digests)) == 1
