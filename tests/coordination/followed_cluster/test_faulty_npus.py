"""NPUs that are reset, faults, and the graceful end: what the reset file leads to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.coordination.followed_cluster.stories import (
    BEGIN,
    ELSEWHERE,
    LOCAL,
    WITHDRAWN,
    Missing,
    R,
    Server,
    Story,
    T,
    Torn,
    listed,
    play,
    played,
)


@pytest.mark.parametrize(
    ("story", "history"),
    [
        pytest.param(
            ((70, listed(LOCAL, "unrecovered")), (220, listed(LOCAL, "recovered"))),
            ["70 npu_reset", "220 starts A"],
            id="an NPU of ours is reset",
        ),
        pytest.param(
            ((70, listed(ELSEWHERE, "unrecovered")), (220, listed(ELSEWHERE, "recovered"))),
            ["70 npu_reset", "220 starts A"],
            id="an NPU of another server is reset",
        ),
        pytest.param(
            ((70, listed(LOCAL, "unrecovered")), (220, R())),
            ["70 npu_reset", "220 starts A"],
            id="the list is emptied",
        ),
        pytest.param(
            ((70, listed(LOCAL, "unrecovered")), (80, Torn()), (90, listed(LOCAL, "recovered"))),
            ["70 npu_reset", "90 starts A"],
            id="a torn file does not end the wait",
        ),
        pytest.param(
            ((70, listed(LOCAL, "unrecovered")), (220, listed(LOCAL, "failed"))),
            ["70 npu_reset", "220 npu_failed", "220 stops npu_failed"],
            id="the reset fails",
        ),
        pytest.param(
            ((70, listed(LOCAL, "unrecovered")), (71, listed(ELSEWHERE, "failed"))),
            ["70 npu_reset", "71 npu_failed", "72 stops npu_failed"],
            id="the reset fails elsewhere, while our ranks are ended",
        ),
        pytest.param(
            (
                (70, R(listed=((LOCAL, "unrecovered"), (ELSEWHERE, "unrecovered")))),
                (100, R(listed=((LOCAL, "recovered"), (ELSEWHERE, "unrecovered")))),
                (150, R(listed=((LOCAL, "recovered"), (ELSEWHERE, "recovered")))),
            ),
            ["70 npu_reset", "150 starts A"],
            id="all listed NPUs must have recovered",
        ),
        pytest.param(
            (
                (70, listed(LOCAL, "unrecovered")),
                (100, R(1)),
                (120, listed(LOCAL, "recovered", 1)),
                (150, T("B")),
            ),
            ["70 npu_reset", "150 starts B"],
            id="pods are replaced meanwhile",
        ),
        pytest.param(
            (
                (70, listed(LOCAL, "unrecovered")),
                (100, T(WITHDRAWN)),
                (120, listed(LOCAL, "recovered")),
                (150, T("B")),
            ),
            ["70 npu_reset", "150 starts B"],
            id="the table is withdrawn meanwhile",
        ),
        pytest.param(
            (
                (70, T(WITHDRAWN)),
                (80, listed(LOCAL, "unrecovered")),
                (90, T("B")),
                (130, listed(LOCAL, "recovered")),
            ),
            ["75 table_withdrawn", "80 npu_reset", "130 starts B"],
            id="an NPU must be reset while the table is withdrawn",
        ),
        pytest.param(
            (
                (70, listed(LOCAL, "unrecovered")),
                (100, listed(LOCAL, "recovered")),
                (110, listed(LOCAL, "unrecovered")),
                (140, listed(LOCAL, "recovered")),
            ),
            ["70 npu_reset", "100 starts A", "110 npu_reset", "140 starts A"],
            id="a second reset after the restart",
        ),
        pytest.param(
            ((70, listed(LOCAL, "fault")),),
            ["70 npu_fault", "72 stops npu_fault"],
            id="a fault of ours",
        ),
        pytest.param(
            ((70, listed(ELSEWHERE, "failed")),),
            ["70 npu_failed", "72 stops npu_failed"],
            id="a reset has failed",
        ),
        pytest.param(
            ((70, R(graceful_exit=True)),),
            ["70 graceful_exit", "72 stops graceful_exit"],
            id="a graceful end",
        ),
        pytest.param(
            ((70, R(graceful_exit=True)), (71, R())),
            ["70 graceful_exit", "72 stops graceful_exit"],
            id="a graceful end is not taken back",
        ),
        pytest.param(
            ((70, T(WITHDRAWN)), (80, R(graceful_exit=True)), (90, T("B"))),
            ["75 table_withdrawn", "80 graceful_exit", "80 stops graceful_exit"],
            id="a graceful end while the table is awaited",
        ),
    ],
)
def test_npus_and_graceful_ends(story: Story, history: list[str]) -> None:
    assert played(*story) == history


def test_no_start_while_an_npu_that_had_recovered_must_be_reset_again() -> None:
    story = (
        *((70, listed(LOCAL, "unrecovered")), (100, listed(LOCAL, "recovered"))),
        *((105, listed(LOCAL, "unrecovered")), (150, listed(LOCAL, "recovered"))),
    )
    history = play(Server(release=10), (*BEGIN, *story), 500)
    assert history == ["-100 starts A", "70 npu_reset", "160 starts A"]


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (R(is_flushing=True), R()),
        (R(graceful_exit=True), R()),
        (listed(LOCAL, "fault"), R()),
        (listed(LOCAL, "failed"), R()),
        (listed(ELSEWHERE, "failed"), R()),
        (listed(LOCAL, "unrecovered"), listed(LOCAL, "recovered")),
        (listed(ELSEWHERE, "unrecovered"), listed(ELSEWHERE, "recovered")),
    ],
)
def test_what_an_earlier_start_has_left_holds_up_a_start_for_900_s_at_most(
    first: R, then: R
) -> None:
    story: Story = ((0, T("A")), (0, first), (50, then))
    server = Server()
    assert play(server, ((0, T("A")), (0, first)), 20) == []
    found = server.obstacle(20)
    assert found is not None
    assert found.limit == 900
    assert play(Server(), story, 500) == ["50 starts A"]


@pytest.mark.parametrize(
    ("story", "history"),
    [
        pytest.param(
            ((70, listed(LOCAL, "unrecovered")), (100, Missing())),
            ["70 npu_reset", "400 starts A"],
            id="it is removed for good while an NPU is reset",
        ),
        pytest.param(
            ((70, listed(LOCAL, "unrecovered")), (100, Missing()), (390, R(1)), (410, T("B"))),
            ["70 npu_reset", "410 starts B"],
            id="it is made again for the new pods",
        ),
        pytest.param(
            ((70, listed(LOCAL, "unrecovered")), (100, Missing()), (300, Torn()), (310, Missing())),
            ["70 npu_reset", "610 starts A"],
            id="it is initialized, and removed again",
        ),
        pytest.param(
            ((-50, listed(LOCAL, "recovered", 3)), (100, Missing()), (500, R(3))),
            [],
            id="RetryTime is remembered",
        ),
    ],
)
def test_what_a_removed_file_has_said_counts_for_300_s(story: Story, history: list[str]) -> None:
    begun = ((-100, T("A")), (-100, R(3 if (-50, listed(LOCAL, "recovered", 3)) in story else 0)))
    assert play(Server(), (*begun, *story), 1000) == ["-100 starts A", *history]


def test_at_a_start_a_removed_file_holds_up_as_long() -> None:
    story: Story = ((0, T("A")), (0, R(is_flushing=True)), (100, Missing()))
    server = Server()
    assert play(server, story, 399) == []
    found = server.obstacle(399)
    assert found is not None
    assert (found.limit, found.ends) == (300, True)
    assert play(Server(), story, 500) == ["400 starts A"]


def test_a_fault_elsewhere_holds_nothing_up() -> None:
    assert play(Server(), ((0, T("A")), (0, listed(ELSEWHERE, "fault"))), 50) == ["0 starts A"]


def test_faults_that_are_collected_hold_up_a_restart() -> None:
    story = ((70, T("B")), (71, R(is_flushing=True)), (200, R(1)))
    assert played(*story) == ["70 table_changed", "200 starts B"]


# Up to MindCluster 26.0 RetryTime rises with each reset, too, and no table follows.

HOT, PODS = "hotReset", "podReschedule"


@pytest.mark.parametrize("why", [HOT, ""], ids=["with its restart type", "alone"])
@pytest.mark.parametrize(
    ("story", "history"),
    [
        pytest.param(
            ((70, listed(LOCAL, "unrecovered", 1)), (220, listed(LOCAL, "recovered", 1))),
            ["70 npu_reset", "220 starts A"],
            id="an NPU of ours is reset",
        ),
        pytest.param(
            ((70, listed(ELSEWHERE, "unrecovered", 1)), (220, listed(ELSEWHERE, "recovered", 1))),
            ["70 npu_reset", "220 starts A"],
            id="an NPU of another server is reset",
        ),
        pytest.param(
            ((70, listed(ELSEWHERE, "recovered", 1)),),
            ["70 npu_reset", "72 starts A"],
            id="only its end is seen",
        ),
        pytest.param(
            ((70, listed(ELSEWHERE, "unrecovered", 1)), (90, listed(ELSEWHERE, "failed", 1))),
            ["70 npu_reset", "90 npu_failed", "90 stops npu_failed"],
            id="it fails",
        ),
        pytest.param(
            (
                (70, listed(LOCAL, "unrecovered", 1)),
                (100, listed(ELSEWHERE, "unrecovered", 2)),
                (130, listed(ELSEWHERE, "recovered", 2)),
            ),
            ["70 npu_reset", "130 starts A"],
            id="an NPU of another server is reset meanwhile",
        ),
        pytest.param(
            (
                *((70, listed(LOCAL, "unrecovered", 1)), (100, listed(LOCAL, "recovered", 1))),
                *((110, listed(LOCAL, "unrecovered", 2)), (140, listed(LOCAL, "recovered", 2))),
            ),
            ["70 npu_reset", "100 starts A", "110 npu_reset", "140 starts A"],
            id="a second reset soon after the restart",
        ),
        pytest.param(
            (
                *((70, listed(LOCAL, "unrecovered", 1)), (75, R(2)), (80, T("B"))),
                (90, listed(LOCAL, "recovered", 2)),
            ),
            ["70 npu_reset", "80 starts B"],
            id="pods are replaced while it is reset",
        ),
        pytest.param(
            ((70, T(WITHDRAWN)), (80, listed(ELSEWHERE, "recovered", 1)), (90, T("A"))),
            ["75 table_withdrawn", "90 starts A"],
            id="while the table is withdrawn",
        ),
    ],
)
def test_a_retry_time_that_rises_with_listed_npus_awaits_no_table(
    story: Story, history: list[str], why: str
) -> None:
    told = [
        (at, replace(change, why=why) if isinstance(change, R) and change.listed else change)
        for at, change in story
    ]
    assert played(*told) == history


@pytest.mark.parametrize(
    ("story", "history"),
    [
        pytest.param(
            ((70, R(1, why=HOT)),),
            ["70 npu_reset", "72 starts A"],
            id="the list is empty again",
        ),
        pytest.param(
            ((70, R(1)),),
            ["70 retry_time", "190 starts A unchanged"],
            id="no restart type",
        ),
        pytest.param(
            ((70, R(1, why=HOT)), (71, R(1, why=PODS)), (80, T("B"))),
            ["70 npu_reset", "71 retry_time", "80 starts B"],
            id="that of an earlier reset, for a moment",
        ),
        pytest.param(
            ((70, R(1, why=HOT)), (75, R(1, why=PODS)), (80, T("A"))),
            ["70 npu_reset", "72 starts A", "75 retry_time", "80 starts A"],
            id="that of an earlier reset, for longer",
        ),
        pytest.param(
            ((70, R(1, why=PODS)), (71, R(1, why=HOT))),
            ["70 retry_time", "71 npu_reset", "72 starts A"],
            id="that of pods that were replaced earlier, for a moment",
        ),
        pytest.param(
            (
                *((70, R(1, why=PODS)), (71, listed(LOCAL, "recovered", 1, PODS))),
                (80, T("B")),
            ),
            ["70 retry_time", "80 starts B"],
            id="a reset ends after pods were replaced",
        ),
        pytest.param(
            ((70, R(1, why=HOT)), (80, R(1)), (85, R(1, why=HOT))),
            ["70 npu_reset", "72 starts A"],
            id="it comes and goes",
        ),
    ],
)
def test_the_restart_type_decides_where_no_npu_is_listed(story: Story, history: list[str]) -> None:
    assert played(*story) == history
