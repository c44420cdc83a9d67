"""What the two files of a cluster lead to: when a generation ends, and when the next one starts.

The letters are tables; A is the one that the first generation runs on, since second -100.
"""

from __future__ import annotations

from itertools import product
from typing import Literal

import pytest

from ascend_supervisor.coordination.detection import noticed
from ascend_supervisor.coordination.memory import Memory, started, with_table_accepted
from ascend_supervisor.coordination.obstacles import is_accepted_unchanged, obstacle
from ascend_supervisor.coordination.sights import CompletedTable, Sight, WithdrawnTable
from tests.coordination.stories import (
    BEGIN,
    ELSEWHERE,
    HERE,
    LOCAL,
    TORN,
    WITHDRAWN,
    WRONG,
    Crash,
    Missing,
    R,
    Server,
    Story,
    T,
    Torn,
    found,
    listed,
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


def test_what_the_files_tell_before_the_first_start_is_no_news() -> None:
    story = ((0, R(7)), (0, T(WITHDRAWN)), (20, R(8)), (30, T("B")), (35, R(9)))
    assert play(Server(), story, 500) == ["30 starts B"]


# What is no incident.


@pytest.mark.parametrize(
    "story",
    [
        pytest.param(((70, T("A")), (71, T("A"))), id="rewritten with the same bytes"),
        pytest.param(((70, T(WITHDRAWN)), (72, T("A"))), id="withdrawn for 2 s, then the same"),
        pytest.param(((70, T(WITHDRAWN)), (74, T("A"))), id="withdrawn for 4 s, then the same"),
        pytest.param(((70, T(TORN)), (71, T("A"))), id="the table is torn for 1 s"),
        pytest.param(((70, T(TORN)),), id="the table is missing for ever"),
        pytest.param(((70, T(WRONG)), (90, T("A"))), id="the table is wrong for a while"),
        pytest.param(((70, Torn()), (71, R())), id="the reset file is torn for 1 s"),
        pytest.param(((70, Missing()),), id="the reset file is missing for ever"),
        pytest.param(
            ((70, T(TORN)), (70, Torn()), (71, R()), (71, T("A"))), id="both are torn for 1 s"
        ),
        pytest.param(((70, R(is_flushing=True)), (80, R())), id="faults are collected"),
        pytest.param(((70, listed(ELSEWHERE, "fault")),), id="a fault on another server"),
        pytest.param(((70, listed(LOCAL, "recovered")),), id="an NPU that has recovered"),
        pytest.param(((70, listed(LOCAL, "isolated")),), id="a status of a later release"),
    ],
)
def test_the_ranks_run_on(story: Story) -> None:
    assert played(*story) == []


@pytest.mark.parametrize(
    ("completed_after", "trigger"),
    [(4.9, None), (5.0, None), (5.1, "table_withdrawn"), (0.0, None)],
)
def test_a_table_is_withdrawn_from_5_s_on(completed_after: float, trigger: str | None) -> None:
    """A look that finds it completed after exactly 5 s comes before the verdict."""
    memory = running()
    memory = noticed(memory, Sight(WithdrawnTable("x")), 10.0)
    for tenth in range(100, round(10 * (10 + completed_after))):
        memory = noticed(memory, Sight(WithdrawnTable("x")), tenth / 10)
    memory = noticed(memory, Sight(CompletedTable(found("A"), (1, 1, 2))), 10 + completed_after)
    assert (memory.incident.trigger if memory.incident else None) == trigger


@pytest.mark.parametrize("again", [(), ((75, R()),), ((75, Torn()),)])
def test_the_table_is_followed_while_the_reset_file_is_gone_and_after(again: Story) -> None:
    story = ((70, Missing()), *again, (100, T(WITHDRAWN)), (120, T("B")), (130, R(1)))
    assert played(*story) == ["105 table_withdrawn", "120 starts B"]


def test_a_table_that_came_from_no_file_is_never_awaited() -> None:
    given = Sight(CompletedTable(found("A")), R().news)
    memory = started(noticed(Memory(), given, 0.0), found("A"), HERE, 0.0)
    for _ in range(3):
        memory = noticed(memory, given, 99.0)
    assert memory.incident is None
    memory = noticed(memory, Sight(reset=R(1).news), 100.0)
    assert memory.incident is not None
    assert memory.incident.trigger == "retry_time"
    assert obstacle(memory, HERE, 100.0) is None
    assert not is_accepted_unchanged(memory)


def test_a_table_that_was_wrong_while_the_ranks_ran_has_its_time_to_be_corrected() -> None:
    server = Server(ending=1000)
    story: Story = (*BEGIN, (0, T(WRONG)))
    play(server, story, 3600)
    assert server.history == ["-100 starts A"]
    assert server.memory.wrong_since == 0
    server.change(R(1), 3601)
    server.look(3601)
    assert server.memory.wrong_since == 3601
    server.change(T("B"), 3602)
    server.look(3602)
    assert server.memory.wrong_since is None


def test_withdrawals_do_not_add_up() -> None:
    story = [(70 + at, T("A") if at % 5 else T(WITHDRAWN)) for at in range(100)]
    assert played(*story) == []


def test_a_clock_that_stands_still_makes_no_incident_of_a_withdrawn_table() -> None:
    memory = running()
    for _ in range(10_000):
        memory = noticed(memory, Sight(WithdrawnTable("x")), 20.0)
    assert memory.incident is None
    assert obstacle(memory, HERE, 20.0) is not None


def test_a_table_that_nobody_sees_is_not_taken_for_withdrawn() -> None:
    """Its directory is gone, or its file system does not answer."""
    memory = noticed(running(), Sight(WithdrawnTable("x")), 10.0)
    memory = noticed(memory, Sight(WithdrawnTable("x")), 12.0)
    for second in range(13, 60):
        memory = noticed(memory, Sight(), float(second))
    assert memory.incident is None


def test_a_table_that_was_written_since_the_start_is_news_with_retry_time() -> None:
    """A pod that is lost in the first minute, and a new table with the same bytes."""
    memory = noticed(running(), Sight(WithdrawnTable("x")), 38.0)
    memory = noticed(memory, Sight(CompletedTable(found("A"), (1, 1, 2))), 41.0)
    memory = noticed(memory, Sight(reset=R(1).news, reset_is_there=True), 42.0)
    assert memory.incident is not None
    assert obstacle(memory, HERE, 43.0) is None


def test_a_reset_file_that_comes_late_tells_of_nothing_new() -> None:
    sight = Sight(CompletedTable(found("A"), (1, 1, 1)), reset_is_missing=True)
    memory = started(noticed(Memory(), sight, 0.0), found("A"), HERE, 0.0)
    memory = noticed(memory, Sight(reset=R(3).news, reset_is_there=True), 70.0)
    assert memory.incident is None
    memory = noticed(memory, Sight(reset=R(4).news, reset_is_there=True), 80.0)
    assert memory.incident is not None


def running(retry_time: int = 0) -> Memory:
    """The memory of a generation that was started with A at 0."""
    sight = Sight(CompletedTable(found("A"), (1, 1, 1)), R(retry_time).news, reset_is_there=True)
    return started(noticed(Memory(), sight, 0.0), found("A"), HERE, 0.0)


# RetryTime.


@pytest.mark.parametrize(
    ("story", "history"),
    [
        pytest.param(
            ((70, R(3)), (75, T("B"))),
            ["70 retry_time", "75 starts B"],
            id="it leaps",
        ),
        pytest.param(
            ((-100, R(3)), (70, R(0)), (75, T("B"))),
            ["70 retry_time", "75 starts B"],
            id="it goes back in place: a controller that begins anew",
        ),
        pytest.param(
            ((-100, R(3)), (70, Missing()), (75, R(0))),
            [],
            id="it goes back because the file was removed and made again",
        ),
        pytest.param(
            ((-100, R(3)), (70, Missing()), (75, Torn()), (80, R(0))),
            [],
            id="the file was removed and is initialized first",
        ),
        pytest.param(
            ((-100, R(3)), (70, Missing()), (75, R(3))),
            [],
            id="the file was removed and made again as it was",
        ),
        pytest.param(
            ((-100, R(3)), (70, Missing()), (75, R(4)), (80, T("B"))),
            ["75 retry_time", "80 starts B"],
            id="the file was removed and made again with a higher one",
        ),
        pytest.param(
            ((-100, R(3)), (70, Missing()), (75, R(0)), (80, R(1)), (90, T("B"))),
            ["80 retry_time", "90 starts B"],
            id="after the file was made again, 1 is news",
        ),
        pytest.param(
            ((-100, R(3)), (70, Missing()), (75, R(3)), (80, R(0)), (90, T("B"))),
            ["80 retry_time", "90 starts B"],
            id="it goes back in place some time after the file was made again",
        ),
        pytest.param(
            ((-100, Torn()), (70, R(1)), (75, T("B"))),
            ["70 retry_time", "75 starts B"],
            id="the file was just initialized at our start",
        ),
        pytest.param(
            ((70, R(1)), (72, R(0)), (80, T("B"))),
            ["70 retry_time", "80 starts B"],
            id="it rises and falls within one incident",
        ),
        pytest.param(
            ((70, R(1)), (71, Torn()), (72, R(1)), (80, T("B"))),
            ["70 retry_time", "80 starts B"],
            id="it is torn and the same again",
        ),
    ],
)
def test_any_difference_of_retry_time_is_news_but_not_of_a_new_file(
    story: Story, history: list[str]
) -> None:
    assert played(*story) == history


# More than one incident.


def test_a_second_pod_that_is_lost_while_the_cluster_recovers_starts_nothing_between() -> None:
    story = (
        *((70, T(WITHDRAWN)), (90, R(1)), (95, T("B")), (97, T(WITHDRAWN))),
        *((120, R(2)), (125, T("C"))),
    )
    history = play(Server(ending=20, release=10), (*BEGIN, *story), 500)
    assert history == ["-100 starts A", "75 table_withdrawn", "135 starts C"]


@pytest.mark.parametrize("order", ["together", "table first", "reset first"])
@pytest.mark.parametrize(
    ("second", "restart"),
    [
        (((79, R(2)), (90, T("C"))), "90 starts C"),
        (((80, R(2)), (80, T("C"))), "80 starts C"),
        (((75, T("C")), (79, R(2))), "80 starts C"),
    ],
)
def test_a_second_retry_time_while_we_wait_needs_a_table_of_its_own(
    second: Story, restart: str, order: Literal["together", "table first", "reset first"]
) -> None:
    """The two are seconds apart, and either may come first."""
    story: Story = ((70, R(1)), (74, T("B")), *second)
    server = Server(ending=10, order=order)
    assert play(server, (*BEGIN, *story), 500)[2:] == [restart]


def test_an_operator_accepts_the_table_of_one_pod_only() -> None:
    told = noticed(running(), Sight(reset=R(1).news, reset_is_there=True), 70.0)
    assert obstacle(told, HERE, 71.0) is not None
    memory = with_table_accepted(told)
    assert obstacle(memory, HERE, 71.0) is None
    assert is_accepted_unchanged(memory)
    another = noticed(memory, Sight(reset=R(2).news, reset_is_there=True), 72.0)
    assert obstacle(another, HERE, 73.0) is not None


def test_a_second_retry_time_counts_its_120_s_anew() -> None:
    story = ((70, R(1)), (170, R(2)))
    assert played(*story) == ["70 retry_time", "290 starts A unchanged"]


@pytest.mark.parametrize("after", [1, 5, 20, 59, 61])
def test_a_second_incident_right_after_a_restart_is_another_restart(after: int) -> None:
    again = 75 + after
    story = (
        *((50, T(WITHDRAWN)), (70, R(1)), (75, T("B"))),
        *((again, T(WITHDRAWN)), (again + 20, R(2)), (again + 25, T("C"))),
    )
    assert played(*story) == [
        *("55 table_withdrawn", "75 starts B"),
        *(f"{again + 5} table_withdrawn", f"{again + 25} starts C"),
    ]


def test_a_table_that_flaps_ends_the_job_after_10_restarts_in_an_hour() -> None:
    story = [(100 + 10 * turn, T("AB"[(turn + 1) % 2])) for turn in range(30)]
    history = played(*story)
    assert [line.split()[1] for line in history[:20]] == ["table_changed", "starts"] * 10
    assert history[20:] == ["200 table_changed", "202 stops unstable"]


def test_restarts_of_an_hour_ago_do_not_count() -> None:
    story = [(100 + 400 * turn, T("AB"[(turn + 1) % 2])) for turn in range(30)]
    assert "stops" not in " ".join(played(*story, until=12_500))


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
