"""One incident restarts a job of several servers once: in whatever order they see it, and when."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.coordination.followed_cluster.followers import Job
from tests.coordination.followed_cluster.stories import WITHDRAWN, Change, R, T, listed

some = settings(max_examples=100, deadline=None)

FIRST, LONG = 200, 1000
"""When the incident comes, and how long the latest server may not have seen all of it."""

Sights = tuple[tuple[int, Change], ...]
"""Of one server: what its files show, and how many seconds after the incident."""


def restarted(sights: Sequence[Sights], until: int = LONG + FIRST, ending: int = 2) -> Job:
    """The job after the incident, as each server has seen it."""
    job = Job(len(sights))
    story: dict[int, dict[str, list[Change]]] = {}
    for index, seen in enumerate(sights):
        name = f"s{index}"
        job.join(name, index, ending)
        history: Sights = ((-FIRST, T("A")), (-FIRST, R()), *seen)
        for at, change in history:
            story.setdefault(FIRST + at, {}).setdefault(name, []).append(change)
    for now in range(until):
        job.second(now, story.get(now, {}))
    assert [one.code for one in job.servers.values()] == [None] * len(sights)
    return job


def has_restarted_once(job: Job) -> None:
    """With the next number, on all servers, free of charge; no start was withdrawn on any."""
    for one in job.servers.values():
        assert one.generations == [0, 1]
        assert one.withdrawn == []
        assert one.known is not None
        assert one.known.about is not None
        assert one.known.about.charges.spent == ()


# The histories of both files, as the cluster writes them; the first server sees them at once.

REPLACED: dict[str, tuple[tuple[tuple[int, Change], ...], tuple[tuple[int, Change], ...]]] = {
    "table alike, with RetryTime": (((0, T("A")),), ((0, R(1)),)),
    "table alike, after RetryTime": (((10, T("A")),), ((0, R(1)),)),
    "table alike, before RetryTime": (((0, T("A")),), ((10, R(1)),)),
    "withdrawn and alike, then RetryTime": (((0, T(WITHDRAWN)), (12, T("A"))), ((20, R(1)),)),
    "withdrawn and alike, RetryTime between": (((0, T(WITHDRAWN)), (12, T("A"))), ((8, R(1)),)),
    "RetryTime, withdrawn and alike": (((3, T(WITHDRAWN)), (12, T("A"))), ((0, R(1)),)),
    "another table": (((4, T("B")),), ((0, R(1)),)),
    "withdrawn, another table": (((0, T(WITHDRAWN)), (12, T("B"))), ((8, R(1)),)),
    "another table, then RetryTime": (((0, T("B")),), ((20, R(1)),)),
    "no table": ((), ((0, R(1)),)),
    "no RetryTime": (((0, T(WITHDRAWN)), (20, T("A"))), ()),
    "a reset": (
        (),
        ((0, listed(2, "unrecovered", 1)), (30, listed(2, "recovered", 1)), (90, R(1))),
    ),
    "a reset with its restart type": (
        (),
        (
            (0, listed(2, "unrecovered", 1, "hotReset")),
            (30, listed(2, "recovered", 1, "hotReset")),
            (90, R(1, why="hotReset")),
        ),
    ),
}

distances = st.sampled_from(
    [0, 0, 1, 2, 3, 5, 9, 10, 11, 20, 30, 58, 59, 60, 61, 100, 119, 130, 300]
)


@st.composite
def late(draw: st.DrawFn, file: tuple[tuple[int, Change], ...]) -> Sights:
    """The same changes of a file in the same order, each at a moment of its own."""
    at = 0
    told: list[tuple[int, Change]] = []
    for written, change in file:
        at = max(at, written + draw(distances))
        told.append((at, change))
    return tuple(told)


@st.composite
def incidents(draw: st.DrawFn) -> tuple[str, list[Sights]]:
    name = draw(st.sampled_from(sorted(REPLACED)))
    table, reset = REPLACED[name]
    others = draw(st.integers(1, 3))
    sights: list[Sights] = [(*table, *reset)]
    for _ in range(others):
        one = (*draw(late(table)), *draw(late(reset)))
        sights.insert(draw(st.integers(0, len(sights))), one)
    return name, sights


@pytest.mark.long
@pytest.mark.timeout(600)  # it computes for 20 s, and more on a machine with much to do
@some
@given(incidents(), st.sampled_from([0, 2, 20]))
@example(("two, 10 s apart", [((0, R(1)), (0, T("A"))), ((10, R(1)), (10, T("A")))]), 2)
@example(  # both have table B from second 20 on, in which one of them sees RetryTime, too
    ("RetryTime at the start", [((20, T("B")), (80, R(1))), ((0, T("B")), (20, R(1)))]), 0
)
def test_one_incident_is_one_restart_in_every_order_and_at_every_distance(
    told: tuple[str, list[Sights]], ending: int
) -> None:
    has_restarted_once(restarted(told[1], ending=ending))


@pytest.mark.long
@pytest.mark.parametrize("apart", [3, 10, 61])
@pytest.mark.parametrize("name", sorted(REPLACED))
def test_twelve_servers_that_see_it_one_after_another_restart_once(name: str, apart: int) -> None:
    table, reset = REPLACED[name]
    sights = [
        tuple((at + apart * number, change) for at, change in (*table, *reset))
        for number in range(12)
    ]
    has_restarted_once(restarted(sights, until=FIRST + 12 * apart + 200))


# A pod that is deleted, and comes back at once on its node: the servers see that before the
# cluster says it.

AFTERWARDS: dict[str, tuple[Sights, Sights]] = {
    "no table": ((), ((0, R(1)),)),
    "table alike": (((2, T("A")),), ((0, R(1)),)),
    "withdrawn and alike": (((0, T(WITHDRAWN)), (12, T("A"))), ((8, R(1)),)),
    "nothing": ((), ()),
}


def replaced(sights: Sequence[Sights], after: int, back: int = 3) -> Job:
    """The job when the last pod is told to stop, and its successor comes ``back`` seconds later.

    ``sights`` are those of its servers, counted from ``after`` seconds later than that.
    """
    job, last = Job(len(sights)), len(sights) - 1
    story: dict[int, dict[str, list[Change]]] = {}
    for index, seen in enumerate(sights):
        name = "new" if index == last else f"s{index}"
        for at, change in seen:
            when = max(FIRST + after + at, FIRST + back if index == last else 0)
            story.setdefault(when, {}).setdefault(name, []).append(change)
    for index in range(len(sights)):
        job.join(f"s{index}", index)
    for now in range(FIRST + LONG):
        changes = dict(story.get(now, {}))
        if now == 0:
            changes |= {name: [T("A"), R()] for name in job.servers}
        if now == FIRST:
            job.servers[f"s{last}"].stop()
        if now == FIRST + back:
            job.join("new", last)
            changes["new"] = [T("A"), R(), *changes.get("new", ())]
        job.second(now, changes)
    return job


@pytest.mark.long
@pytest.mark.parametrize("after", [0, 2, 4, 8, 30, 45])
@pytest.mark.parametrize("name", sorted(AFTERWARDS))
@pytest.mark.parametrize("apart", [0, 1, 10, 70])
def test_a_pod_that_is_deleted_and_made_again_at_once_costs_one_restart(
    name: str, after: int, apart: int
) -> None:
    table, reset = AFTERWARDS[name]
    sights = [
        tuple((at + apart * number, change) for at, change in (*table, *reset))
        for number in range(3)
    ]
    job = replaced(sights, after)
    for one in ("s0", "s1", "new"):
        assert job.servers[one].code is None
        assert job.servers[one].withdrawn == []
        assert job.servers[one].generations == ([1] if one == "new" else [0, 1])
    assert job.runs_since < FIRST + after + 60
    assert job.servers["s2"].code == 143
