"""How many servers there are, and which this is, where no table tells of ranks."""

from __future__ import annotations

import pytest

from ascend_supervisor.cluster.declared import MOST_HOSTS
from ascend_supervisor.cluster.platforms import (
    index_told,
    node_rank_told,
    servers_table,
)
from tests.pods import (
    mindspore_scheduler,
    mindspore_worker,
    pytorch,
    tensorflow,
    trainer_v2,
)


@pytest.mark.parametrize(
    ("environ", "servers"),
    [
        ({}, 1),
        ({"MA_NUM_HOSTS": "1", "VC_WORKER_HOSTS": "w-0"}, 1),
        ({"MA_NUM_HOSTS": "3"}, 3),
        ({"VC_WORKER_HOSTS": "w-0,w-1"}, 2),
        ({"WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"}, 2),
        ({"MS_WORKER_NUM": "12", "MS_LOCAL_WORKER": "8"}, 2),
        ({"CM_WORKER_SIZE": "8", "CM_LOCAL_WORKER": "8"}, 1),
        ({"WORLD_SIZE": "16"}, 1),
        ({"WORLD_SIZE": "2", "RANK": "1"}, 2),
        ({"WORLD_SIZE": "2", "RANK": "1", "TORCHELASTIC_RUN_ID": "job"}, 1),
        (mindspore_worker(1, 1, 0), 2),
        (mindspore_scheduler(1, 1, npus=False), 2),
        (trainer_v2(8, 3, 0), 3),
        ({"MA_NUM_HOSTS": "two", "LOCAL_WORLD_SIZE": "8"}, 1),
        ({"MA_NUM_HOSTS": "999999999"}, MOST_HOSTS),
    ],
)
def test_the_servers_are_those_that_variables_tell_of(environ, servers):
    table = servers_table(environ, 0)
    assert (len(table.entries), table.servers, table.world_size) == (servers, servers, 0)
    assert table.holds_all(table.entries[0]) == (servers == 1)
    assert table.file_for_ranks is None


def test_a_later_server_is_not_the_only_one():
    table = servers_table({"VC_WORKER_HOSTS": "w-0"}, 1)
    assert [entry.label for entry in table.entries] == ["w-0", "server 1"]


@pytest.mark.parametrize(
    ("environ", "node_rank"),
    [
        ({}, 0),
        ({"VC_TASK_INDEX": "2", "MA_TASK_INDEX": "1"}, 2),
        ({"VC_TASK_INDEX": "", "MA_TASK_INDEX": "1"}, 1),
        ({"VC_TASK_INDEX": "-1", "VK_TASK_INDEX": "3"}, 3),
        ({"MS_NODE_RANK": "4"}, 4),
        (pytorch(8, 4, 3), 3),
        (tensorflow(8, 4, 2), 2),
        (trainer_v2(8, 3, 1), 1),
        ({"VC_TASK_INDEX": "999999999", "RANK": "5"}, 0),
    ],
)
def test_the_number_of_this_server_is_that_of_the_platform(environ, node_rank):
    assert node_rank_told(environ) == node_rank


@pytest.mark.parametrize(
    ("environ", "index"),
    [
        ({}, None),
        ({"JOB_COMPLETION_INDEX": "1"}, 1),
        ({"JOB_COMPLETION_INDEX": "0", "VC_TASK_INDEX": "1"}, 0),
        ({"VC_TASK_INDEX": "1"}, 1),
        ({"JOB_COMPLETION_INDEX": "2"}, None),
        ({"JOB_COMPLETION_INDEX": "x"}, None),
    ],
)
def test_a_number_that_a_platform_gives_is_an_index_where_there_are_so_many_servers(environ, index):
    assert index_told(environ, 2) == index
