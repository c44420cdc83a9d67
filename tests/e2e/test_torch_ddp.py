"""A real training under the supervisor: PyTorch's DistributedDataParallel with gloo, 2 ranks."""

from __future__ import annotations

import importlib.util

import pytest

from tests.e2e.training import begun, digests, ended, train

pytestmark = [
    pytest.mark.e2e,
    # Only looked for: the ranks import it, and the tests' own process need not.
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None,
        reason="torch is not installed: .venv/bin/pip install --group e2e",
    ),
]


def test_training_that_lost_a_rank_ends_bit_identical_to_one_that_did_not(
    undisturbed_digests, supervised, tmp_path
):
    job = train(supervised, tmp_path, "1", "6")
    assert ended(job) == 0
    assert digests(job, 1) == undisturbed_digests

    assert "SIGKILL in step 6" in job.said(1)
    deaths = job.all("process.exited", generation=0, first_failure=True)
    assert [(death["rank"], death["signal"]) for death in deaths] == [(1, "SIGKILL")]
    assert begun(job, 1) == ["generation 1 of 2 ranks begins at step 4"] * 2
    assert [event["next"] for event in job.all("generation.ended")] == ["restart", "stop"]
    assert not job.survivors()
