"""A trial whose ranks add up with MindSpore on the CPU."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.trial.trying import TRIAL_SECONDS, every_step_is_made

pytestmark = [pytest.mark.e2e_mindspore, pytest.mark.timeout(3 * TRIAL_SECONDS)]


def test_a_trial_with_mindspore_says_that_it_tells_nothing_of_npus(tmp_path):
    if not Path(sys.executable).with_name("msrun").exists():
        pytest.skip("MindSpore is not installed")
    every_step_is_made(tmp_path, "MindSpore on the CPU", "mindspore_cpu", "mindspore")
