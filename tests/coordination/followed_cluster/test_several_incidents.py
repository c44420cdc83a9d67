"""When a cluster's two files tell of more than one incident; the letters are tables."""

from __future__ import annotations

from typing import Literal

import pytest

from ascend_supervisor.coordination.followed_cluster.incident_detection import noticed
from ascend_supervisor.coordination.followed_cluster.memory import Sight, with_table_accepted
from ascend_supervisor.coordination.followed_cluster.start_obstacles import (
    is_accepted_unchanged,
    obstacle,
)
from tests.coordination.followed_cluster.stories import (
    BEGIN,
    HERE,
    WITHDRAWN,
    Missing,
    R,
    Server,
    Story,
    T,
    Torn,
    play,
    played,
    running,
)

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
