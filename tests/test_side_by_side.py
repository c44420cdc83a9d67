"""scripts/side-by-side: two targets of make at the same time, of which each is told whole."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.running import DEADLINE_SECONDS

pytestmark = pytest.mark.one_python

PROGRAM = Path(__file__).parents[1] / "scripts" / "side-by-side"
TARGETS = """
meets: ; @echo $@ begins; echo >to; read word <fro; echo $@ ends
is-met: ; @echo $@ begins; read word <to; echo >fro; echo $@ ends
fails: ; @echo $@ begins; false
stays-%: ; @echo $@ begins; echo >$*; exec sleep 600
"""


@pytest.fixture
def side_by_side(tmp_path):
    """Start two of TARGETS, in a process group of their own; ``to`` and ``fro`` are FIFOs."""
    (tmp_path / "Makefile").write_text(TARGETS)
    for name in ("to", "fro"):
        os.mkfifo(tmp_path / name)
    started = []

    def start(*targets: str) -> subprocess.Popen[str]:
        environ = {name: value for name, value in os.environ.items() if "MAKE" not in name}
        started.append(
            subprocess.Popen(
                [PROGRAM, *targets],
                cwd=tmp_path,
                env=environ,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        )
        return started[-1]

    yield start
    for run in started:
        if run.returncode is None:
            os.killpg(run.pid, signal.SIGKILL)
            run.communicate()


@pytest.mark.parametrize("targets", [("meets", "is-met"), ("is-met", "meets")])
def test_both_run_at_the_same_time_and_the_second_is_told_after_the_first(side_by_side, targets):
    run = side_by_side(*targets)
    lines = [f"{target} {word}\n" for target in targets for word in ("begins", "ends")]
    assert run.communicate(timeout=DEADLINE_SECONDS)[0] == "".join(lines)
    assert run.returncode == 0


@pytest.mark.parametrize("targets", [("fails", "no-such-target"), ("no-such-target", "fails")])
def test_each_failure_is_told(side_by_side, targets):
    run = side_by_side(*targets)
    told, _ = run.communicate(timeout=DEADLINE_SECONDS)
    assert "fails] Error 1" in told
    assert "No rule to make target 'no-such-target'" in told
    assert run.returncode == 1


@pytest.mark.parametrize("targets", [("fails", "meets"), ("meets", "fails")])
def test_one_that_fails_ends_no_other_and_fails_both(side_by_side, targets, tmp_path):
    run = side_by_side(*targets)
    (tmp_path / "to").read_text()
    (tmp_path / "fro").write_text("\n")
    told, _ = run.communicate(timeout=DEADLINE_SECONDS)
    assert "meets ends" in told
    assert told.endswith("side-by-side: failed, as told above: fails\n")
    assert run.returncode == 1


@pytest.mark.parametrize(
    ("send", "number"),
    [(os.killpg, signal.SIGINT), (os.killpg, signal.SIGTERM), (os.kill, signal.SIGTERM)],
)
def test_a_signal_ends_both_and_names_what_ran(side_by_side, tmp_path, send, number):
    """As a terminal and timeout send it to the group, or as make sends it to this program."""
    run = side_by_side("stays-to", "stays-fro")
    for name in ("to", "fro"):
        (tmp_path / name).read_text()
    send(run.pid, number)
    told, _ = run.communicate(timeout=DEADLINE_SECONDS)
    assert run.returncode == 1
    for name in ("to", "fro"):
        assert f"stays-{name} begins" in told
    assert told.endswith("side-by-side: failed, as told above: stays-to stays-fro\n")
