"""What `make test` and `make check` do with a part that fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


pytestmark = pytest.mark.skipif(
    not Path(sys.executable).is_relative_to(ROOT / ".venv"),
    reason="make would bring another environment up to date than that of this run",
)


def made(*words: str) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(
        ["make", *words],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_what_fails_keeps_no_later_part_from_running_and_is_told_last():
    run = made("test", "EVERY_PART=no-such-part help no-other-part help")
    assert run.returncode == 2
    assert run.stdout.count("make demo ") == 2
    told = [line for line in run.stderr.splitlines() if line.startswith("make test: ")]
    assert told == ["make test: failed, as told above: no-such-part no-other-part"]


def test_of_what_is_checked_side_by_side_each_is_run_and_told_whole():
    run = made("check", "SIDE_BY_SIDE=no-such-part help")
    assert run.returncode == 2
    assert "No rule to make target 'no-such-part'" in run.stderr
    assert run.stdout.startswith(made("help").stdout)
