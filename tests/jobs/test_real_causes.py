"""Ranks that really fail, each in another way, and the cause that the events of their job tell."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.jobs.failing_ranks import OF_PYTHON, OF_THE_HOST, OF_THE_MACHINE, Failing
from tests.running import DEADLINE_SECONDS, Running

AT_ONCE = (
    "--restart-delay",
    "0",
    "--release-delay",
    "0",
    "--min-uptime",
    "0",
    "--no-restart-on",
    "125",
)


def causes(
    supervised: Callable[..., Running], root: Path, failing: Sequence[Failing], *before: str
) -> list[str | None]:
    """What is told of each program: one job runs them all, one in each generation."""
    for number, (_, program) in enumerate(failing):
        (root / f"{number}.py").write_text(program)
    job = supervised(
        *("--standalone", "1", "--restarts", str(len(failing) - 1), *AT_ONCE, "--", *before),
        *("sh", "-c", 'exec "$0" "$1/$TORCHELASTIC_RESTART_COUNT.py"', sys.executable, str(root)),
        deadline=DEADLINE_SECONDS * 3,
    )
    job.end()
    known = [event["diagnosis"] for event in job.all("generation.ended")]
    return [diagnosis and diagnosis["id"] for diagnosis in known]


@pytest.mark.parametrize(
    ("failing", "before"),
    [
        (OF_PYTHON, ()),
        (OF_THE_HOST, ()),
        pytest.param(
            *(OF_THE_MACHINE, ("unshare", "--mount")),
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="a bad machine is made by root"),
        ),
    ],
    ids=["python", "host", "machine"],
)
def test_a_rank_that_really_fails_has_its_cause(supervised, tmp_path, failing, before):
    found = causes(supervised, tmp_path, failing, *before)
    told = zip(found, failing, strict=True)
    assert [(one, right, text) for one, (right, text) in told if one != right] == []
