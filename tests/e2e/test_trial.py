"""A trial whose ranks add up with PyTorch and gloo."""

from __future__ import annotations

import pytest

from tests.e2e.test_torch_ddp import pytestmark as needs_torch
from tests.trial.trying import TRIAL_SECONDS, every_step_is_made

pytestmark = [
    *needs_torch,
    pytest.mark.timeout(3 * TRIAL_SECONDS),
]


def test_a_trial_with_gloo_says_that_it_tells_nothing_of_npus(tmp_path):
    every_step_is_made(tmp_path, "gloo", "gloo", "torch")
