"""What .ci/run makes of what `make test` prints: tests that pass only when they are tried again."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.one_python

ROOT = Path(__file__).parents[1]


def ended(tmp_path: Path, printed: str, status: int) -> subprocess.CompletedProcess[str]:
    """The end of .ci/run where ``make`` prints this and ends with this status."""
    for name in (".ci", "scripts", "programs"):
        (tmp_path / name).mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    (tmp_path / "printed").write_text(printed)
    for path, text in (
        ("scripts/environment", "exit 0"),
        ("programs/make", f'[ "$1" = test ] || exit 0; cat printed; exit {status}'),
    ):
        (tmp_path / path).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / path).chmod(0o755)
    return subprocess.run(
        ["bash", ".ci/run"],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{tmp_path}/programs:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


RERUN = "RERUN tests/test_a.py::test_{}\nE   assert 0\nPASSED tests/test_a.py::test_{}\n"


@pytest.mark.parametrize(("reruns", "status"), [(0, 0), (1, 0), (2, 0), (3, 1)])
def test_more_than_two_tests_that_pass_only_at_the_second_try_fail_it(tmp_path, reruns, status):
    printed = "".join(RERUN.format(number, number) for number in range(reruns))
    run = ended(tmp_path, printed + "1 passed\n", 0)
    assert run.returncode == status, run.stdout + run.stderr
    last = run.stdout.rpartition("1 passed\n")[2]
    assert [line for line in last.splitlines() if line.startswith("RERUN ")] == [
        f"RERUN tests/test_a.py::test_{number}" for number in range(reruns)
    ]


def test_what_fails_at_both_tries_fails_it_and_is_told_last(tmp_path):
    name = "tests/test_a.py::test_1"
    run = ended(tmp_path, f"RERUN {name}\nFAILED {name}\nmore\n", 2)
    assert run.returncode == 1
    assert f"once more:\nFAILED {name}\n" in run.stdout
