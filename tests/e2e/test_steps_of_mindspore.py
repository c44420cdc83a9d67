"""Steps of a real MindSpore: what the supervisor tells is what the training wrote into a file.

LossMonitor counts within the epoch and tells neither how many steps an epoch has nor a checkpoint.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.e2e.diary_of_steps import false_steps, lives_of
from tests.ports import free_port

pytestmark = [pytest.mark.e2e_mindspore, pytest.mark.timeout(300)]

SCRIPT = Path(__file__).with_name("steps_mindspore.py")
FATAL_STEP = 47
STEPS_OF_EPOCH, EPOCHS = 20, 3


def test_the_loss_monitor_of_mindspore(supervised, tmp_path):
    if not Path(sys.executable).with_name("msrun").exists():
        pytest.skip("MindSpore is not installed")
    job = supervised(
        *("--standalone", "2", "--method", "mindspore", "--master-port", str(free_port())),
        *("--restarts", "1", "--restart-delay", "0", "--release-delay", "0"),
        *("--progress-interval", "0.2"),
        *("--", sys.executable, str(SCRIPT), str(tmp_path), str(FATAL_STEP)),
        deadline=200.0,
    )
    assert job.end() == 0, job.events[-1]
    first, second = lives_of(tmp_path / "diary")
    assert second.resumed == FATAL_STEP // STEPS_OF_EPOCH * STEPS_OF_EPOCH
    epochs = {event["epoch"] for event in job.all("training.progress")}
    assert epochs == set(range(1, EPOCHS + 1))
    assert {event["format"] for event in job.all("training.started")} == {"loss-monitor"}
    told = [
        {**event, "step": STEPS_OF_EPOCH * (event["epoch"] - 1) + event["step"]}
        for event in job.all("training.progress")
    ]
    assert not list(false_steps(told, [first, second]))
    _, last = first.steps[-1]
    ended = [event["step"] for event in job.all("generation.ended")]
    assert ended == [last % STEPS_OF_EPOCH, STEPS_OF_EPOCH]
    assert not job.survivors()
