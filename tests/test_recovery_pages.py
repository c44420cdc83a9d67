"""docs/recovery.md and its translation say what the code does: limits, codes, promises and tests.

What several pages have in common is in test_docs.py and test_promises.py; the recorded story of
these pages is in test_timelines.py.
"""

from __future__ import annotations

import re

import pytest

from ascend_supervisor.coordination.followed_cluster.incident import HURRIED_SECONDS
from ascend_supervisor.coordination.followed_cluster.incident_detection import (
    LASTING_SECONDS,
    WITHDRAWN_PROJECTED_SECONDS,
    WITHDRAWN_SECONDS,
)
from ascend_supervisor.coordination.followed_cluster.memory import (
    CONFIRMED_SECONDS,
    FORGOTTEN_SECONDS,
    MOST_RESTARTS,
    RESTARTS_SECONDS,
)
from ascend_supervisor.coordination.followed_cluster.start_obstacles import (
    MOST_SECONDS,
    UNCHANGED_SECONDS,
)
from ascend_supervisor.events import cluster
from tests.test_docs import CODES, TEST, between, chapter, differences, page, rows

pytestmark = pytest.mark.one_python

PAGES = ("docs/recovery.md", "docs/recovery.zh.md")
HELD_BY = {PAGES[0]: "Held by", PAGES[1]: "由哪些测试保证"}
FAULTS = {PAGES[0]: "What happens at each fault", PAGES[1]: "故障场景与处理"}
LIMITS = (
    WITHDRAWN_SECONDS,
    WITHDRAWN_PROJECTED_SECONDS,
    CONFIRMED_SECONDS,
    UNCHANGED_SECONDS,
    MOST_SECONDS,
    FORGOTTEN_SECONDS,
    LASTING_SECONDS,
    HURRIED_SECONDS,
    MOST_RESTARTS,
)
TOLD_TO_STOP = 143


def limit_complaints(text: str) -> list[str]:
    """Whether the table of limits has those of the code, in this order."""
    told = [row[1].removesuffix(" s") for row in rows(between(text, "limits"))]
    return differences([f"{limit:g}" for limit in LIMITS], told, "limit")


def code_complaints(text: str, title: str) -> list[str]:
    """Whether every fault has its five cells, and every code is one of ours."""
    told = chapter(text, title)
    faults = [
        row for row in rows(told) if len(row) == len(("fault", "cluster", "we", "code", "who"))
    ]
    complaints = ["no faults are told"] * (not faults)
    for fault, *_, code, _ in faults:
        strange = {*map(int, re.findall(r"\b\d{2,3}\b", code))} - CODES - {TOLD_TO_STOP}
        complaints += [f"{fault}: {number} is no exit code" for number in sorted(strange)]
        complaints += [f"{fault}: no exit code is told"] * (not code)
    return complaints


@pytest.mark.parametrize("name", PAGES)
def test_the_limits_are_those_of_the_code(name):
    assert limit_complaints(page(name)) == []
    assert RESTARTS_SECONDS == 60 * 60  # as both pages say it


@pytest.mark.parametrize(("right", "wrong"), [("| 120 s |", "| 60 s |"), ("| 10 |", "| 11 |")])
def test_a_wrong_limit_is_found(right, wrong):
    assert limit_complaints(page(PAGES[0]).replace(right, wrong, 1))


@pytest.mark.parametrize("name", PAGES)
def test_every_fault_has_an_exit_code_of_ours(name):
    assert code_complaints(page(name), FAULTS[name]) == []


@pytest.mark.parametrize(("right", "wrong"), [("| 69 |", "| 68 |"), ("| 143 |", "| |")])
def test_a_wrong_exit_code_is_found(right, wrong):
    name = PAGES[0]
    assert code_complaints(page(name).replace(right, wrong, 1), FAULTS[name])


@pytest.mark.parametrize("name", PAGES)
def test_every_event_of_the_cluster_is_told(name):
    events = (cluster.ClusterIncident, cluster.ClusterWaiting, cluster.RankTableUnchanged)
    assert [event.name for event in events if f"`{event.name}`" not in page(name)] == []


def test_both_pages_name_the_same_tests_for_their_promises():
    english, chinese = (rows(chapter(page(name), HELD_BY[name])) for name in PAGES)
    assert english
    assert [promise for promise, tests in english if "::test_" not in tests] == []
    named = [TEST.findall(chapter(page(name), HELD_BY[name])) for name in PAGES]
    assert len(english) == len(chinese)
    assert named[0] == named[1]
