"""A rank table in a ConfigMap: kubelet shows each change late, and what is over for up to 90 s."""

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
from tests.coordination.followed_cluster.stories import (
    BEGIN,
    HERE,
    WITHDRAWN,
    Crash,
    R,
    Server,
    Story,
    T,
    found,
    play,
)


@pytest.mark.parametrize(
    ("story", "history"),
    [
        pytest.param(
            ((10, T(WITHDRAWN)), (100, T("A"))),
            [],
            id="an operator restarts, and it shows for 90 s",
        ),
        pytest.param(
            ((10, T(WITHDRAWN)), (60, R(1)), (160, T("B"))),
            ["60 retry_time", "160 starts B"],
            id="RetryTime tells of a withdrawal",
        ),
        pytest.param(
            ((10, T(WITHDRAWN)), (60, R(1)), (70, T("A"))),
            ["60 retry_time", "70 starts A"],
            id="the new table is the same",
        ),
        pytest.param(
            ((10, T(WITHDRAWN)), (100, T("B")), (130, R(1))),
            ["100 table_changed", "102 starts B"],
            id="the new table tells of it",
        ),
        pytest.param(
            ((10, T(WITHDRAWN)), (200, R(1)), (210, T("B"))),
            ["130 table_withdrawn", "210 starts B"],
            id="nothing else tells of it for 120 s",
        ),
        pytest.param(
            ((10, T(WITHDRAWN)), (40, Crash()), (160, T("B"))),
            ["40 crashed", "43 table_withdrawn", "160 starts B"],
            id="ranks have failed because of it",
        ),
        pytest.param(
            ((10, Crash()), (30, T(WITHDRAWN)), (160, T("B"))),
            ["10 crashed", "35 table_withdrawn", "160 starts B"],
            id="ranks have failed before it shows",
        ),
        pytest.param(
            ((10, Crash()), (30, T(WITHDRAWN)), (60, T("B")), (80, T(WITHDRAWN)), (160, T("B"))),
            ["10 crashed", "35 table_withdrawn", "60 starts B"],
            id="after the restart it has its time again",
        ),
    ],
)
def test_a_withdrawn_table_is_believed_when_something_else_tells_of_it_or_after_120_s(
    story: Story, history: list[str]
) -> None:
    begun = play(Server(projected=True), (*BEGIN, *story), 500)
    assert begun == ["-100 starts A", *history]


@pytest.mark.parametrize(
    ("seconds", "trigger"), [(119, None), (120, "table_withdrawn"), (121, "table_withdrawn")]
)
def test_the_limit_of_a_config_map_is_120_s(seconds: int, trigger: str | None) -> None:
    begun = Sight(CompletedTable(found("A"), (1, 1, 1)), R().news, reset_is_there=True)
    memory = started(noticed(ClusterMemory(), begun, 0.0), found("A"), HERE, 0.0)
    for second in range(10, 10 + seconds + 1):
        memory = noticed(memory, Sight(WithdrawnTable("x", is_projected=True)), float(second))
    assert (memory.incident.trigger if memory.incident else None) == trigger
