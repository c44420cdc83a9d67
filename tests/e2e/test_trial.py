"""A trial whose ranks add up with PyTorch and gloo."""

from __future__ import annotations

import sys

import pytest

from tests.e2e.test_torch_ddp import pytestmark as needs_torch
from tests.trial.trying import TRIAL_SECONDS, Tried, results, summary_of

pytestmark = [
    *needs_torch,
    pytest.mark.timeout(3 * TRIAL_SECONDS),
]


def test_a_trial_with_gloo_says_that_it_tells_nothing_of_npus(tmp_path):
    tried = Tried(tmp_path, sys.executable)
    assert tried.line() == "no NPU here: ran with gloo; nothing here says anything about NPUs\n"
    code, out, err = tried.ended(3 * TRIAL_SECONDS)
    assert (code, err) == (0, ""), out
    files = tried.files
    summary = summary_of(files)
    assert summary["setting"]["kind"] == "gloo"
    assert set(summary["setting"]["versions"]) >= {"python", "torch"}
    found = results(summary)
    warm = next(one for one in summary["steps"] if one["step"] == "warm restart")
    if found.pop("warm restart") != "ok":  # standbys give way to whatever else runs here
        assert "imports at the lowest priority, and the CPUs are busy" in warm["sentence"]
    assert set(found.values()) == {"ok"}
    log = files["steps/start/log/job-proc-rank-1-device-1.txt"]
    assert b"all-reduce 1: 2 ranks add up to 3\n" in log
