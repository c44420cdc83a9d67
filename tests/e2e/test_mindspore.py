"""Real MindSpore over a real dynamic cluster: msrun's, and our own without msrun."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ascend_supervisor.trial.server import RANK_PROGRAM
from tests.ports import free_port
from tests.running import Running
from tests.two_servers import on_each, two_servers

pytestmark = [pytest.mark.e2e_mindspore, pytest.mark.timeout(300)]

SCRIPT = Path(__file__).with_name("reduce_mindspore.py")

Start = Callable[..., Running]


@pytest.fixture(params=["msrun", "mindspore"])
def reduce(request: pytest.FixtureRequest, supervised: Start) -> Start:
    """``reduce(*arguments)`` runs the script with two devices."""
    if not Path(sys.executable).with_name("msrun").exists():
        pytest.skip("MindSpore is not installed")

    def start(*arguments: str) -> Running:
        options = (
            "--standalone",
            "2",
            "--method",
            request.param,
            "--master-port",
            str(free_port()),
        )
        return supervised(*options, "--", sys.executable, str(SCRIPT), *arguments, deadline=200.0)

    return start


@pytest.fixture(params=["msrun", "mindspore"])
def reduce_across(request, supervised, tmp_path):
    if not Path(sys.executable).with_name("msrun").exists():
        pytest.skip("MindSpore is not installed")
    with two_servers() as servers:

        def run(*words: str) -> list[Running]:
            return on_each(
                servers,
                supervised,
                tmp_path,
                *("--method", request.param, "--", sys.executable, str(SCRIPT), *words),
                deadline=200.0,
                environ={"MA_NUM_GPUS": "1"},
            )

        yield run


def test_the_server_that_failed_is_named_where_nothing_else_did(reduce_across):
    whole, broken = reduce_across("kill")
    assert broken.end() == 137
    assert broken.events[-1]["root_cause"].startswith("rank 1 failed first, in generation 0")
    assert whole.end() != 0
    assert (
        "MindSpore's scheduler had missed rank 1 before, on 10.77.0.2; look there"
        in whole.events[-1]["root_cause"]
    )
    assert not whole.survivors()
    assert not broken.survivors()


def test_ranks_add_up(reduce):
    job = reduce()
    assert job.end() == 0
    for rank in range(2):
        assert f"rank {rank} of 2: the sum is [3.]" in job.said(rank)
    assert not job.survivors()


def test_the_ranks_of_a_trial_add_up(supervised):
    if not Path(sys.executable).with_name("msrun").exists():
        pytest.skip("MindSpore is not installed")
    words = ("--standalone", "2", "--method", "mindspore", "--master-port", str(free_port()))
    rank = (sys.executable, str(RANK_PROGRAM), "mindspore_cpu", "2")
    job = supervised(*words, "--", *rank, deadline=200.0)
    assert job.end() == 0
    for rank_number in range(2):
        assert "all-reduce 2: 2 ranks add up to 3" in job.said(rank_number)


def test_the_first_failure_is_that_of_the_rank(reduce):
    job = reduce("kill")
    assert job.end() == 137
    cause = job.events[-1]["root_cause"]
    assert cause.startswith("rank 1 failed first, in generation 0: it was killed by SIGKILL")
    assert "rank 1 of 2: the sum is [3.]" in cause
    assert not job.survivors()
