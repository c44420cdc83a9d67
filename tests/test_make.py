"""What `make test` does with a part that fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.skipif(
    not Path(sys.executable).is_relative_to(ROOT / ".venv"),
    reason="make would bring another environment up to date than that of this run",
)
def test_what_fails_keeps_no_later_part_from_running_and_is_told_last():
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    made = subprocess.run(
        ["make", "test", "EVERY_PART=no-such-part help no-other-part help"],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert made.returncode == 2
    assert made.stdout.count("make demo ") == 2
    told = [line for line in made.stderr.splitlines() if line.startswith("make test: ")]
    assert told == ["make test: failed, as told above: no-such-part no-other-part"]
