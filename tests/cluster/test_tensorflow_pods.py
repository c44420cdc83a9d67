"""What is started in each pod of a TensorFlow job of Ascend Operator: Chief and Workers."""

from __future__ import annotations

import pytest

from tests.pods import EVERY_POD, mindspore_worker, pytorch, tensorflow

NO_TABLE = ("RANK_ID", "RANK_SIZE", "RANK_TABLE_FILE")
"""HCCL refuses these beside CM_*."""


@pytest.mark.parametrize("left", [{}, dict.fromkeys(NO_TABLE, "0")], ids=["", "leftovers"])
@pytest.mark.parametrize(("cards", "pods", "node"), EVERY_POD)
def test_a_pod_starts_a_process_for_each_npu(check, cards, pods, node, left, tmp_path):
    if left:
        left = {**left, "RANK_TABLE_FILE": str(tmp_path / "nowhere" / "hccl.json")}
    pod = tensorflow(cards, pods, node)
    plan = check.plan({**pod, **left})
    assert plan.shape == (cards * pods, pods)
    assert plan.node_rank == node
    assert plan.ranks == list(range(node * cards, (node + 1) * cards))
    for local_rank, process in enumerate(plan.processes):
        told = [name for name in pod if name.startswith("CM_")]
        assert process.has(*told) == {name: pod[name] for name in told}
        assert process.has("ASCEND_DEVICE_ID", "DEVICE_INDEX") == {
            "ASCEND_DEVICE_ID": str(local_rank),
            "DEVICE_INDEX": str(node * cards + local_rank),
        }
        assert process.has(*NO_TABLE) == dict.fromkeys(NO_TABLE)


def test_the_variables_of_tensorflow_win_over_those_of_pytorch(check):
    plan = check.plan({**pytorch(8, 3, 2), **tensorflow(2, 2, 1)})
    assert plan.shape == (4, 2)
    assert plan.ranks == [2, 3]


def test_the_variables_of_mindspore_win_over_those_of_tensorflow(check):
    plan = check.plan({**tensorflow(8, 3, 2), **mindspore_worker(2, 2, 1)})
    assert plan.shape == (4, 2)
    assert [process.environ["MS_ROLE"] for process in plan.processes] == ["MS_WORKER"] * 2
