"""What the two files of a cluster lead to: when a generation ends, and when the next one starts.

The letters are tables; A is the one that the first generation runs on, since second -100.
"""

from __future__ import annotations

from itertools import product

import pytest

from tests.coordination.followed_cluster.stories import (
    BEGIN,
    TORN,
    WITHDRAWN,
    WRONG,
    Crash,
    Missing,
    R,
    Server,
    Story,
    T,
    play,
    played,
)

# One incident, one restart: whatever tells of it first.


@pytest.mark.parametrize(
    ("story", "history"),
    [
        pytest.param(
            ((10, T(WITHDRAWN)), (30, R(1)), (35, T("B"))),
            ["15 table_withdrawn", "35 starts B"],
            id="the table is withdrawn, RetryTime rises, a new table comes",
        ),
        pytest.param(
            ((10, T("B")), (15, R(1))),
            ["10 table_changed", "12 starts B"],
            id="the new table comes first",
        ),
        pytest.param(
            ((10, T("B")), (11, R(1))),
            ["10 table_changed", "12 starts B"],
            id="the new table comes first, and RetryTime while the ranks are ended",
        ),
        pytest.param(
            ((10, R(1)), (30, T("B"))),
            ["10 retry_time", "30 starts B"],
            id="RetryTime comes first, and the table is never withdrawn",
        ),
        pytest.param(
            ((10, R(1)), (11, T(WITHDRAWN)), (30, T("B"))),
            ["10 retry_time", "30 starts B"],
            id="RetryTime comes first, then the table is withdrawn",
        ),
        pytest.param(
            ((10, T(WITHDRAWN)), (30, R(1)), (35, T("A"))),
            ["15 table_withdrawn", "35 starts A"],
            id="the new table has the same bytes",
        ),
        pytest.param(
            ((10, T(WITHDRAWN)), (13, R(1)), (14, T("A"))),
            ["13 retry_time", "15 starts A"],
            id="the table is withdrawn for less than 5 s, but RetryTime has risen",
        ),
        pytest.param(
            ((10, T(WITHDRAWN)), (12, T("A")), (20, R(1))),
            ["20 retry_time", "22 starts A"],
            id="the same table was written shortly before RetryTime",
        ),
        pytest.param(
            ((10, T("A")), (40, R(1))),
            ["40 retry_time", "42 starts A"],
            id="the same table was rewritten shortly before RetryTime",
        ),
        pytest.param(
            ((10, R(1)),),
            ["10 retry_time", "130 starts A unchanged"],
            id="the table is never written: accepted as it is after 120 s",
        ),
        pytest.param(
            ((10, R(1)), (90, T("A"))),
            ["10 retry_time", "90 starts A"],
            id="the table is rewritten with the same bytes after RetryTime",
        ),
        pytest.param(
            ((10, T(WITHDRAWN)), (12, T("B"))),
            ["12 table_changed", "14 starts B"],
            id="withdrawn for less than 5 s, then another table",
        ),
        pytest.param(
            ((10, T(WITHDRAWN)), (17, T("A"))),
            ["15 table_withdrawn", "17 starts A"],
            id="withdrawn for more than 5 s, then the same table",
        ),
        pytest.param(
            ((10, T("B")), (11, T("A"))),
            ["10 table_changed", "12 starts A"],
            id="another table for a moment, while the ranks are ended",
        ),
        pytest.param(
            ((10, T(WITHDRAWN)), (30, R(1)), (35, T("B")), (36, T("B")), (50, T("B"))),
            ["15 table_withdrawn", "35 starts B"],
            id="the new table is written again and again",
        ),
        pytest.param(
            ((10, T("B")), (71, R(1))),
            ["10 table_changed", "12 starts B"],
            id="RetryTime 59 s after the restart still confirms it",
        ),
        pytest.param(
            ((10, T("B")), (72, R(1))),
            ["10 table_changed", "12 starts B", "72 retry_time", "192 starts B unchanged"],
            id="RetryTime 60 s after the restart is another incident",
        ),
        pytest.param(
            ((10, T("B")), (15, R(1)), (25, R(2)), (30, T("C"))),
            ["10 table_changed", "12 starts B", "25 retry_time", "30 starts C"],
            id="only the first RetryTime after the restart confirms it",
        ),
        pytest.param(
            ((10, T(WITHDRAWN)), (30, R(1)), (35, T("B")), (45, R(2)), (60, T("C"))),
            ["15 table_withdrawn", "35 starts B", "45 retry_time", "60 starts C"],
            id="a restart that RetryTime has told of needs no confirmation",
        ),
        pytest.param(
            ((10, R(1)), (20, T("B")), (24, R(2))),
            ["10 retry_time", "20 starts B", "24 retry_time", "26 starts B"],
            id="the second table comes before its RetryTime, and a generation begins in between",
        ),
        pytest.param(
            ((10, R(1)), (20, T("B")), (25, R(2))),
            ["10 retry_time", "20 starts B", "25 retry_time", "145 starts B unchanged"],
            id="RetryTime 5 s after a generation has begun with a new table asks for another one",
        ),
        pytest.param(
            ((10, T("A")), (71, R(1))),
            ["71 retry_time", "191 starts A unchanged"],
            id="a table that was rewritten 61 s before RetryTime is not newer",
        ),
        pytest.param(
            ((10, T(WITHDRAWN)), (90, R(1)), (95, R(2)), (100, T("A", is_back=True))),
            ["15 table_withdrawn", "100 starts A"],
            id="the withdrawn table is swapped for the old file",
        ),
        pytest.param(
            ((10, T(WITHDRAWN)), (12, T(TORN)), (20, R(1)), (25, T("B"))),
            ["20 retry_time", "25 starts B"],
            id="the withdrawn table is torn, so nobody sees how long it is withdrawn",
        ),
        pytest.param(
            ((10, T(WITHDRAWN)), (12, T(WRONG)), (14, T("B"))),
            ["14 table_changed", "16 starts B"],
            id="the withdrawn table is wrong, then another one",
        ),
    ],
)
def test_an_incident_is_one_restart(story: Story, history: list[str]) -> None:
    assert played(*story) == history


@pytest.mark.thorough
@pytest.mark.parametrize(
    "story",
    [
        ((10, T(WITHDRAWN)), (30, R(1)), (35, T("B"))),
        ((10, T("B")), (15, R(1))),
        ((10, R(1)), (15, T("B"))),
    ],
)
def test_it_is_one_restart_however_long_the_ranks_and_their_npus_take(
    story: Story,
) -> None:
    endings = (0, 1, 5, 14, 15, 16, 19, 20, 21, 24, 25, 26, 60, 200, 890)
    for ending, release in product(endings, (0, 1, 10, 600)):
        history = play(Server(ending, release), (*BEGIN, *story), 2500)
        starts = [line.split()[1:] for line in history[::2]]
        assert starts == [["starts", "A"], ["starts", "B"]], (ending, release)
        assert len(history) == 3, (ending, release)


@pytest.mark.parametrize(
    ("at", "history"),
    [(1, []), (5, []), (59, []), (60, ["60 retry_time"]), (70, ["70 retry_time"])],
)
def test_a_server_that_is_new_itself_takes_retry_time_for_a_confirmation(
    at: int, history: list[str]
) -> None:
    """It starts with the new table, and the other servers restart once, too."""
    assert play(Server(), ((0, T("B")), (0, R()), (at, R(1))), at) == ["0 starts B", *history]


@pytest.mark.parametrize(
    ("story", "history"),
    [
        pytest.param(
            ((10, R(1)), (11, T("A"))),
            ["11 retry_time", "13 starts A"],
            id="the same table is written again",
        ),
        pytest.param(
            ((10, R(1)), (59, T(WITHDRAWN)), (61, T("A"))),
            ["59 retry_time", "61 starts A"],
            id="the table is withdrawn for 2 s",
        ),
        pytest.param(((10, R(1)), (60, T("A"))), [], id="60 s after the start: too late"),
        pytest.param(((10, R(1)), (20, Missing())), [], id="no table is written"),
        pytest.param(
            ((10, R(1)), (11, T("A")), (20, R(2)), (30, T("A"))),
            ["11 retry_time", "13 starts A", "20 retry_time", "30 starts A"],
            id="and then another pod is lost",
        ),
    ],
)
def test_retry_time_and_then_a_table_are_no_confirmation(story: Story, history: list[str]) -> None:
    """A pod that is replaced on its own server gets the table that was there before."""
    begin = ((0, T("A")), (0, R()))
    assert play(Server(), (*begin, *story), 500) == ["0 starts A", *history]


def test_what_the_files_tell_before_the_first_start_is_no_news() -> None:
    story = ((0, R(7)), (0, T(WITHDRAWN)), (20, R(8)), (30, T("B")), (35, R(9)))
    assert play(Server(), story, 500) == ["30 starts B"]


# Ranks that fail because of it.


@pytest.mark.parametrize(
    ("story", "history"),
    [
        pytest.param(
            ((70, Crash()), (73, T(WITHDRAWN)), (130, R(1)), (135, T("B"))),
            ["70 crashed", "78 table_withdrawn", "135 starts B"],
            id="the cluster speaks 3 s later",
        ),
        pytest.param(
            ((70, Crash()), (100, T("B"))),
            ["70 crashed", "100 table_changed", "100 starts B"],
            id="the cluster speaks in the last moment",
        ),
        pytest.param(
            ((70, Crash()), (71, T(WITHDRAWN)), (73, T("A"))),
            ["70 crashed", "102 stops alone"],
            id="the table is withdrawn for 2 s only",
        ),
        pytest.param(((70, Crash()),), ["70 crashed", "102 stops alone"], id="nothing comes"),
        pytest.param(
            ((70, T(WITHDRAWN)), (72, Crash()), (80, T("B"))),
            ["72 crashed", "75 table_withdrawn", "80 starts B"],
            id="the table was withdrawn already",
        ),
        pytest.param(
            ((70, Crash()), (80, R(graceful_exit=True))),
            ["70 crashed", "80 graceful_exit", "80 stops graceful_exit"],
            id="a graceful end is asked for",
        ),
    ],
)
def test_a_failure_waits_for_the_word_of_the_cluster(story: Story, history: list[str]) -> None:
    assert played(*story) == history
