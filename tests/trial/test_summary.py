"""What a trial says of itself: one line a step, and whether all is well."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ascend_supervisor.trial.summary import Setting, StepResult, StepVerdict, Summary

SETTING = Setting((), 2, "gloo", "/usr/bin/python3", {"python": "3.11", "torch": "2.5"}, "no NPU")


def step(name: str, result: StepVerdict = "ok", **changes: object) -> StepResult:
    return replace(StepResult(name, result, 1.5, "it went so"), **changes)


def summary(*steps: StepResult, ended_early: str = "") -> Summary:
    made = ("2026-11-26T22:00:00Z", "ascend_supervisor 0.1.0", "host")
    return Summary(*made, SETTING, steps, ended_early)


def test_a_page_has_the_remark_and_a_line_for_each_step():
    page = summary(step("start"), step("hang", "failed", left=("socket x", "process 7"))).page
    assert page == (
        "Trial by ascend_supervisor 0.1.0 on host, 2026-11-26T22:00:00Z: 0 NPUs, 2 ranks of kind "
        "gloo; python 3.11, torch 2.5\n\n"
        "no NPU\n\n"
        "ok           start           1.5 s  it went so\n"
        "failed       hang            1.5 s  it went so; left: socket x; process 7\n\n"
        "1 ok, 1 failed, 0 not possible\n"
    )


@pytest.mark.parametrize(
    ("result", "ended_early", "is_good"),
    [
        ("ok", "", True),
        ("not possible", "", True),
        ("failed", "", False),
        ("ok", "interrupted in the step hang", False),
    ],
)
def test_all_is_well_unless_a_step_failed_or_is_missing(result, ended_early, is_good):
    found = summary(step("start"), step("hang", result), ended_early=ended_early)
    assert found.is_good == is_good
    assert found.verdict.endswith(ended_early)
