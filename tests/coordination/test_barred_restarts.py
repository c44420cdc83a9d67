"""Which restarts are announced, and why there may be none."""

from __future__ import annotations

from pathlib import Path

import pytest

from ascend_supervisor.cluster.made_table import standalone_table
from ascend_supervisor.cluster.rank_table import FoundTable
from ascend_supervisor.coordination.alone import (
    OTHER_POD,
    OTHER_SERVERS,
    without_restarts,
)
from ascend_supervisor.events.generations import RestartsBarred
from ascend_supervisor.life import Start
from tests.plays import Stage, alone, crash, finish
from tests.rank_tables import TEMPLATE_1, table

HERE = standalone_table(2)
TWO_SERVERS = FoundTable(Path("a table"), table(TEMPLATE_1), "")


@pytest.mark.parametrize(
    ("found", "joins_others", "limit", "left", "bar"),
    [
        (HERE, False, 3, 3, None),
        (HERE, False, 0, 0, None),
        (HERE, True, 3, 0, OTHER_POD),
        (HERE, True, 0, 0, None),
        (TWO_SERVERS, False, 3, 0, OTHER_SERVERS),
        (TWO_SERVERS, True, 3, 0, OTHER_SERVERS),
        (TWO_SERVERS, False, 0, 0, None),
    ],
)
def test_only_restarts_that_can_happen_are_left(found, joins_others, limit, left, bar):
    asked = Start(0, found, 0, found.table.entries[0], limit)
    start = without_restarts(asked, limit, joins_others=joins_others, elsewhere=OTHER_SERVERS)
    assert (start.restarts_left, start.bar) == (left, bar)


@pytest.mark.parametrize("bar", [OTHER_POD, OTHER_SERVERS])
def test_the_event_says_why_and_what_to_do(bar):
    event = RestartsBarred(bar.reason, bar.remedy)
    assert bar.reason in event.msg
    assert bar.remedy in event.msg
    assert event.severity == "warning"


@pytest.mark.parametrize("limit", [0, 1])
async def test_where_they_can_happen_or_were_not_asked_for_nothing_is_told(limit):
    stage = Stage([crash, finish], alone(limit))
    await stage.run()
    assert RestartsBarred not in map(type, stage.events)
