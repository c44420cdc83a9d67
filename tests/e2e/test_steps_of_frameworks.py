"""Steps of real frameworks: what the supervisor tells is what the training wrote into a file.

Each job is killed once and resumes from its last checkpoint.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.e2e.diary_of_steps import Life, false_steps, lives_of
from tests.running import Running

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

Start = Callable[..., Running]
FATAL_STEP = 47
STEPS = 60
ON_CPU = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "ACCELERATE_USE_CPU": "true"}
OPTIONS = (
    *("--restarts", "1", "--restart-delay", "0", "--release-delay", "0"),
    *("--progress-interval", "0.2"),
)


def need(*names: str) -> None:
    """Only looked for: the ranks import them, and the tests' own process need not."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed: .venv/bin/pip install --group e2e_frameworks")


def trained(
    supervised: Start,
    script: str,
    root: Path,
    *words: str,
    environ: Mapping[str, str] | None = None,
) -> tuple[Running, list[Life]]:
    """A job that was killed at FATAL_STEP and then came to its end; ``words`` are options."""
    *options, quiet = words if "quiet" in words else (*words, "")
    path = Path(__file__).with_name(script)
    job = supervised(
        *OPTIONS,
        *options,
        *("--", sys.executable, str(path), str(root), str(FATAL_STEP), quiet),
        deadline=200.0,
        environ={**ON_CPU, **(environ or {})},
    )
    assert job.end() == 0, job.events[-1]
    assert not job.survivors()
    return job, lives_of(root / "diary")


def assert_true(job: Running, lives: list[Life], name: str, steps: int | None = STEPS) -> None:
    """Each step that was told was made, and is the last one as far as a bar can tell."""
    assert not list(false_steps(job.events, lives))
    assert len(job.all("training.progress")) >= 4
    assert [event["format"] for event in job.all("training.started")] == [name, name]
    assert {event["steps"] for event in job.all("training.progress")} == {steps}
    assert job.all("generation.ended")[-1]["step"] == STEPS


def saved(job: Running, generation: int) -> list[int]:
    return [event["step"] for event in job.all("checkpoint.saved", generation=generation)]


def resumed(job: Running) -> list[object]:
    return [event["resumed_step"] for event in job.all("training.started")]


def test_the_trainer_of_transformers(supervised, tmp_path):
    need("transformers")
    job, lives = trained(supervised, "steps_transformers.py", tmp_path, "--standalone", "1")
    assert_true(job, lives, "huggingface")
    assert [saved(job, n) for n in (0, 1)] == [list(life.saved) for life in lives]
    assert resumed(job) == [None, lives[1].resumed]
    assert lives[1].resumed == 40


def test_the_trainer_of_transformers_that_tells_only_warnings(supervised, tmp_path):
    need("transformers")
    job, lives = trained(
        supervised, "steps_transformers.py", tmp_path, "--standalone", "1", "quiet"
    )
    assert_true(job, lives, "huggingface")
    assert [saved(job, n) for n in (0, 1)] == [[], []]


@pytest.mark.parametrize("name", ["lightning", "mmengine"])
def test_what_does_not_tell_how_many_epochs_there_are(supervised, tmp_path, name):
    need(name)
    job, lives = trained(supervised, f"steps_{name}.py", tmp_path, "--standalone", "1")
    assert_true(job, lives, name, steps=None)
    assert [saved(job, n) for n in (0, 1)] == [list(life.saved) for life in lives]
    assert resumed(job) == [None, lives[1].resumed]


def test_a_loop_with_accelerate(supervised, tmp_path):
    need("accelerate")
    job, lives = trained(supervised, "steps_accelerate.py", tmp_path, "--standalone", "2")
    assert_true(job, lives, "accelerate")
    assert [saved(job, n) for n in (0, 1)] == [list(life.saved) for life in lives]
    assert resumed(job) == [None, lives[1].resumed]


def test_a_loop_with_accelerate_under_torchrun(supervised, tmp_path):
    """Its ranks share a pipe, and --tee puts a mark before each of their lines.

    It reads stdout and stderr apart: the line about the resume may come after the first steps.
    """
    need("accelerate")
    job, lives = trained(
        supervised,
        "steps_accelerate.py",
        tmp_path,
        *("--standalone", "2", "--method", "torchrun"),
        environ={"MA_EXTRA_TORCHRUN_PARAMS": "--tee 3"},
    )
    assert_true(job, lives, "accelerate")
    assert [saved(job, n) for n in (0, 1)] == [list(life.saved) for life in lives]
    (state,) = job.log_dir.glob("*-supervisor-*.json")
    assert json.loads(state.read_text())["progress"]["resumed_step"] == lives[1].resumed


def test_keras(supervised, tmp_path):
    """It prints nothing of a resume."""
    need("keras")
    job, lives = trained(supervised, "steps_keras.py", tmp_path, "--standalone", "1")
    assert_true(job, lives, "keras")
    assert [saved(job, n) for n in (0, 1)] == [list(life.saved) for life in lives]
    assert resumed(job) == [None, None]
    assert lives[1].resumed == job.all("training.started")[1]["step"] - 1
