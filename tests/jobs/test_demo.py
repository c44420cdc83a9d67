"""`make demo`, as a newcomer runs it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "scripts" / "demo"
DEADLINE_SECONDS = 180.0
"""Its standbys give way, also to the other tests of a busy machine."""
FIRST_STEPS = (
    r"  ok      the first step came [\d.]+ s after the cold start and [\d.]+ s after the warm"
)


@pytest.mark.timeout(DEADLINE_SECONDS + 30)
def test_the_demo_loses_a_rank_twice_resumes_warm_and_ends_like_an_undisturbed_run(tmp_path):
    with subprocess.Popen(
        [sys.executable, DEMO],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as demo:
        try:
            said, _ = demo.communicate(timeout=DEADLINE_SECONDS)
        except BaseException:
            os.killpg(demo.pid, signal.SIGKILL)  # with its supervisor; the ranks die of that
            raise
    assert demo.returncode == 0, said
    lines = said.splitlines()
    for moment in ("before the first step", "after step 30"):
        assert f"[rank 2] kills itself {moment} with SIGKILL, as if memory had run out" in lines
    assert "[rank 3] successfully loaded checkpoint from checkpoint.json at iteration 20" in lines
    for told in (" of 60 (", " %), ", "checkpoint of step 40 saved", ", resumed at step 20"):
        assert told in said
    assert "  ok      the supervisor ended with exit code 0" in lines
    assert any(re.match(FIRST_STEPS, line) for line in lines)
    assert any(
        line.startswith("  ok      the result is exactly that of an undisturbed run")
        for line in lines
    )
    assert "FAILED" not in said
    left = [line.split()[-1] for line in lines[-4:]]
    assert [len(list(Path("/").glob(path[1:]))) for path in left] == [4, 1, 1, 1]
