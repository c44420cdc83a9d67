"""What of a cluster's two files ends no generation; the letters are tables, as in stories."""

from __future__ import annotations

import pytest

from ascend_supervisor.coordination.followed_cluster.incident_detection import noticed
from ascend_supervisor.coordination.followed_cluster.memory import (
    ClusterMemory,
    CompletedTable,
    Sight,
    WithdrawnTable,
    started,
)
from ascend_supervisor.coordination.followed_cluster.start_obstacles import (
    is_accepted_unchanged,
    obstacle,
)
from tests.coordination.followed_cluster.stories import (
    BEGIN,
    ELSEWHERE,
    HERE,
    LOCAL,
    TORN,
    WITHDRAWN,
    WRONG,
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
    running,
)


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
    memory = started(noticed(ClusterMemory(), given, 0.0), found("A"), HERE, 0.0)
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
    memory = started(noticed(ClusterMemory(), sight, 0.0), found("A"), HERE, 0.0)
    memory = noticed(memory, Sight(reset=R(3).news, reset_is_there=True), 70.0)
    assert memory.incident is None
    memory = noticed(memory, Sight(reset=R(4).news, reset_is_there=True), 80.0)
    assert memory.incident is not None
