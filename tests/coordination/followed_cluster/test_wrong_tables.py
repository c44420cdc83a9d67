"""What is told of a rank table that becomes wrong while the ranks run."""

from __future__ import annotations

from collections.abc import Iterable

from ascend_supervisor.coordination.followed_cluster.incident_detection import (
    Doubts,
    doubts_after,
    noticed,
    told_now,
)
from ascend_supervisor.coordination.followed_cluster.memory import (
    ClusterMemory,
    CompletedTable,
    SeenTable,
    Sight,
    WrongTable,
    started,
)
from tests.coordination.followed_cluster.stories import HERE, R, found

RIGHT: SeenTable = CompletedTable(found("A"), (1, 1, 1))
WRONG: SeenTable = WrongTable(("$.a: wrong",))
OTHER: SeenTable = WrongTable(("$.b: wrong",))


def told(
    tables: Iterable[SeenTable | None], *, runs: bool = True, retry_time: int = 0
) -> list[str]:
    """When something is told, and of which fault; the table is looked at every second."""
    memory = noticed(ClusterMemory(), Sight(RIGHT, R().news, reset_is_there=True), 0.0)
    if runs:
        memory = started(memory, found("A"), HERE, 0.0)
    memory = noticed(memory, Sight(reset=R(retry_time).news, reset_is_there=True), 100.0)
    doubts, history = Doubts(), []
    for second, table in enumerate(tables):
        now = 101.0 + second
        memory = noticed(memory, Sight(table), now)
        before, doubts = doubts, doubts_after(doubts, memory, now)
        if sentence := told_now(before, doubts):
            history.append(f"{second} {'a' if '$.a' in sentence else 'b'}")
    return history


def test_the_same_faults_are_told_once_after_10_s() -> None:
    assert told([WRONG] * 60) == ["10 a"]


def test_faults_that_do_not_last_are_not_told() -> None:
    assert told([*[WRONG] * 10, RIGHT, *[WRONG] * 10, RIGHT]) == []


def test_a_file_that_nobody_can_read_meanwhile_changes_nothing() -> None:
    assert told([WRONG, *[None] * 30]) == ["10 a"]


def test_each_fault_has_its_own_10_s_and_is_told_once() -> None:
    story = [*[WRONG] * 20, *[OTHER] * 5, *[WRONG] * 20, *[OTHER] * 20, RIGHT, *[OTHER] * 20]
    assert told(story) == ["10 a", "55 b"]


def test_nothing_is_told_before_the_first_start_and_while_the_cluster_recovers() -> None:
    assert told([WRONG] * 30, runs=False) == []
    assert told([WRONG] * 30, retry_time=1) == []
