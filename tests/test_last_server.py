"""Which server of a job ends last."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_supervisor.cluster.made_table import standalone_table
from ascend_supervisor.cluster.rank_table import FoundTable
from ascend_supervisor.life import Start
from ascend_supervisor.program.run import ends_last
from tests.rank_tables import TEMPLATE_1, table

TWO_SERVERS = FoundTable(Path("a table"), table(TEMPLATE_1), "")
TOLD = {"MA_NUM_HOSTS": "2"}


def start(found: FoundTable, node_rank: int) -> Start:
    return Start(0, found, node_rank, found.table.entries[node_rank], 0)


@pytest.mark.parametrize(
    ("last", "environ", "is_last"),
    [
        (start(TWO_SERVERS, 0), {}, True),
        (start(TWO_SERVERS, 1), {}, False),
        (start(standalone_table(2), 0), {}, False),
        (start(TWO_SERVERS, 1), {**TOLD, "VC_TASK_INDEX": "0"}, False),
        (start(standalone_table(2), 0), TOLD, True),
        (None, {}, False),
        (None, {**TOLD, "VC_TASK_INDEX": "0"}, True),
        (None, {**TOLD, "VC_TASK_INDEX": "1"}, False),
        (None, {"MA_NUM_HOSTS": "1", "VC_TASK_INDEX": "0"}, False),
        (None, {"WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8", "RANK": "0"}, True),
        (None, {"WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8", "RANK": "1"}, False),
    ],
)
def test_it_is_the_first_of_several(last, environ, is_last):
    assert ends_last(last, environ) is is_last


NAMES = ("MA_NUM_HOSTS", "VC_TASK_INDEX", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "RANK", "PET_NNODES")


@given(st.dictionaries(st.sampled_from((*NAMES, "MS_ROLE", "VC_WORKER_HOSTS")), st.text()))
def test_nothing_in_the_environment_keeps_the_last_event_from_being_written(environ):
    assert ends_last(None, environ) in {True, False}
