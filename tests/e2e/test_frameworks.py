"""Lightning and Hugging Face accelerate run unchanged: their ranks find each other by ``env://``.

Both are optional (the group e2e_frameworks): skipped and named where they are not installed.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

LIGHTNING = Path(__file__).with_name("fit_lightning.py")
TEST_SCRIPT = "accelerate.test_utils.scripts.test_script"
"""Accelerate's own suite, which ``accelerate test`` runs."""
ON_CPU = {"OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
"""The second is what ``accelerate launch --cpu`` sets; without it there are no ranks on a CPU."""


def need(name: str) -> None:
    """Only looked for: the ranks import it, and the tests' own process need not."""
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed: .venv/bin/pip install --group e2e_frameworks")


def start(supervised, *words: str):
    options = ("--standalone", "2", "--release-delay", "0")
    return supervised(*options, "--", sys.executable, *words, deadline=350.0, environ=ON_CPU)


def test_lightning_trains_on_two_ranks(supervised):
    need("lightning")
    job = start(supervised, str(LIGHTNING))
    assert job.end() == 0, job.events[-1]
    told = []
    for rank in range(2):
        (line,) = (line for line in job.said(rank) if line.startswith("rank "))
        assert line.startswith(f"rank {rank} of 2: 8 steps, ")
        told.append(line.partition("parameters ")[2])
    assert told[0] == told[1]
    assert not job.survivors()


def test_the_suite_of_accelerate_passes_on_two_ranks(supervised):
    need("accelerate")
    job = start(supervised, "-m", TEST_SCRIPT)
    assert job.end() == 0, job.events[-1]
    said = "\n".join(job.said(0))
    assert "Num processes: 2" in said
    assert "**Training integration test**" in said
    assert not job.survivors()
