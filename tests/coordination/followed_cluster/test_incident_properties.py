"""Whatever a cluster writes into its two files, and in whatever order, some things always hold."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ascend_supervisor.coordination.followed_cluster.memory import CompletedTable
from tests.coordination.followed_cluster.stories import (
    TORN,
    WITHDRAWN,
    WRONG,
    Change,
    Crash,
    Missing,
    R,
    Server,
    T,
    Torn,
    play,
    seconds,
)

pytestmark = pytest.mark.thorough

some = settings(max_examples=80)

CALM = 1000
"""Longer than every limit."""
STATUSES = ("fault", "unrecovered", "recovered", "failed", "later")

NOISE = (T("A"), T(TORN), T(WRONG), Torn(), Missing(), R(2), T(WITHDRAWN))

gaps = st.sampled_from([0, 1, 2, 3, 4, 5, 6, 10, 20, 58, 59, 60, 61, 119, 120, 121])
tables = st.sampled_from(["A", "A", "B", "C", WITHDRAWN, WITHDRAWN, TORN, WRONG]).map(T)
lists = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(STATUSES)), max_size=2).map(tuple)
quiet_resets = st.builds(R, st.integers(0, 3))
seldom = st.sampled_from([*[False] * 9, True])
whys = st.sampled_from(["", "", "hotReset", "podReschedule"])
resets = st.builds(R, st.integers(0, 3), lists, st.booleans(), seldom, whys)
changes: st.SearchStrategy[Change] = st.one_of(
    *(tables, tables, quiet_resets, quiet_resets, resets),
    st.sampled_from([Missing(), Torn(), Crash()]),
)
servers = st.builds(
    Server,
    st.sampled_from([0, 1, 5, 30, 200]),
    st.sampled_from([0, 1, 10]),
    projected=st.booleans(),
)


@st.composite
def stories(
    draw: st.DrawFn, told: st.SearchStrategy[Change] = changes
) -> tuple[tuple[int, Change], ...]:
    at = 0
    story: list[tuple[int, Change]] = [(0, T("A")), (0, R(draw(st.integers(0, 3))))]
    for gap, change in draw(st.lists(st.tuples(gaps, told), max_size=15)):
        at += gap
        story.append((at, change))
    return tuple(story)


def starts(history: list[str]) -> list[int]:
    return [int(line.split()[0]) for line in history if " starts " in line]


@some
@given(servers, stories())
def test_no_generation_starts_while_the_files_say_otherwise(
    server: Server, story: tuple[tuple[int, Change], ...]
) -> None:
    known = 0
    for _ in seconds(server, story, story[-1][0] + CALM):
        for line in server.history[known:]:
            check(server, line)
        known = len(server.history)


def check(server: Server, line: str) -> None:
    _, act, what, *_ = [*line.split(), ""]
    if act != "starts":
        return
    table, reset = server.memory.table, server.memory.reset
    assert isinstance(table, CompletedTable)
    assert table.found.sha256 == what
    assert server.told.table in (table, None)
    assert not reset.is_flushing
    assert not reset.graceful_exit
    assert "unrecovered" not in {listed.status for listed in reset.ranks}


@some
@given(servers, stories())
def test_each_change_of_the_files_causes_one_restart_at_most(
    server: Server, story: tuple[tuple[int, Change], ...]
) -> None:
    history = play(server, story, story[-1][0] + CALM)
    causes = [change for _, change in story[2:] if isinstance(change, R | T)]
    assert len(starts(history)) <= 1 + len(causes)
    last = story[-1][0]
    assert len([at for at in starts(history) if at > last]) <= 1


@some
@given(servers, stories())
def test_once_the_files_are_calm_a_generation_runs_or_there_is_a_reason_with_a_limit(
    server: Server, story: tuple[tuple[int, Change], ...]
) -> None:
    end = story[-1][0] + CALM
    play(server, story, end)
    if server.state in ("running", "over"):
        return
    found = server.obstacle(end)
    assert server.state == "waiting"
    assert found is not None
    assert found.reason
    assert not found.ends
    is_completed = isinstance(server.memory.table, CompletedTable)
    assert (found.limit is None) is not is_completed or found.limit == 900


@some
@given(servers, stories(), st.sampled_from("ABC"), st.integers(0, 3))
def test_calm_files_in_good_order_let_a_generation_run(
    server: Server, story: tuple[tuple[int, Change], ...], table: str, retry_time: int
) -> None:
    last = story[-1][0]
    play(server, (*story, (last, T(table)), (last, R(retry_time))), last + CALM)
    assert server.state in ("running", "over")
    if server.state == "running":
        assert server.history[-1].split()[:3][1:] == ["starts", table]


@some
@given(st.lists(st.tuples(gaps, st.sampled_from(NOISE))))
def test_what_only_looks_like_an_incident_never_ends_a_generation(
    noise: list[tuple[int, Change]],
) -> None:
    at = 0
    story: list[tuple[int, Change]] = [(0, T("A")), (0, R(2))]
    for gap, change in noise:
        at += gap + 5
        story.append((at, change))
        if change == T(WITHDRAWN):
            story.append((at + 4, T("A")))
    assert play(Server(), story, at + 200) == ["0 starts A"]


@some
@given(servers, stories())
def test_reading_unchanged_files_again_makes_no_difference(
    server: Server, story: tuple[tuple[int, Change], ...]
) -> None:
    end = story[-1][0] + CALM
    again = Server(server.ending, server.release, again=True, projected=server.projected)
    assert play(server, story, end) == play(again, story, end)


@some
@given(servers, stories())
@example(Server(0, 0), ((0, T("A")), (0, R(0)), (1, T("A")), (1, R(1))))
@example(
    Server(0, 0),
    (
        *((0, T("A")), (0, R(1)), (60, R(0))),
        (61, R(1, ((0, "recovered"),), why="hotReset")),
    ),
)
@example(
    Server(0, 0, projected=True),
    (
        *((0, T("A")), (0, R(0)), (1, T(WITHDRAWN)), (121, R(1, ((0, "recovered"),)))),
        *((122, T("A")), (123, R(0))),
    ),
)
def test_the_order_in_which_the_files_are_looked_at_decides_nothing(
    server: Server, story: tuple[tuple[int, Change], ...]
) -> None:
    end = story[-1][0] + CALM
    together = acts(play(server, story, end))
    for order in ("table first", "reset first"):
        other = Server(server.ending, server.release, order=order, projected=server.projected)
        assert acts(play(other, story, end)) == together


def acts(history: list[str]) -> list[str]:
    """When the server starts and stops, and how."""
    return [line for line in history if " starts " in line or " stops " in line]
