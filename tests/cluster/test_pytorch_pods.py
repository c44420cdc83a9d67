"""What is started in each pod of a PyTorch job that has variables and no rank table."""

from __future__ import annotations

import pytest

from tests.pods import EVERY_POD, PORT, SERVICE, for_hccl, for_torch, pytorch, tensorflow

IN_EVERY_POD = pytest.mark.parametrize(("cards", "pods", "node"), EVERY_POD)


@IN_EVERY_POD
def test_a_pod_starts_a_rank_for_each_npu(check, cards, pods, node):
    plan = check.plan(pytorch(cards, pods, node))
    assert plan.shape == (cards * pods, pods)
    assert plan.node_rank == node
    assert plan.ranks == list(range(node * cards, (node + 1) * cards))
    for local_rank, process in enumerate(plan.processes):
        wanted = {
            **for_torch(cards, pods, node, local_rank),
            **for_hccl(cards, pods, node, local_rank),
        }
        assert process.has(*wanted) == wanted


@IN_EVERY_POD
def test_torchrun_starts_the_ranks_of_a_pod(check, cards, pods, node):
    plan = check.plan(pytorch(cards, pods, node), "--method", "torchrun")
    (torchrun,) = plan.processes
    assert torchrun.rank is None
    assert torchrun.argv[0] == "torchrun"
    assert torchrun.options["nnodes"] == str(pods)
    assert torchrun.options["nproc_per_node"] == str(cards)
    if pods > 1:
        assert torchrun.options["node_rank"] == str(node)
        assert torchrun.options["master_addr"] == SERVICE
        assert torchrun.options["master_port"] == PORT
    assert torchrun.has("RANK_TABLE_FILE") == {"RANK_TABLE_FILE": None}


@pytest.mark.parametrize("method", ["ranktable", "torchrun"])
def test_a_port_that_is_named_wins(check, method):
    options = ("--method", method, "--master-port", "29777")
    for process in check.plan(pytorch(2, 2, 1), *options).processes:
        found = process.options.get("master_port") or process.environ["MASTER_PORT"]
        assert found == "29777"


@pytest.mark.parametrize(("method", "port"), [("ranktable", "29500"), ("torchrun", "18888")])
def test_where_the_operator_gives_no_port_it_is_the_methods_own(check, method, port):
    pod = pytorch(2, 2, 1)
    del pod["MASTER_PORT"]
    for process in check.plan(pod, "--method", method).processes:
        found = process.options.get("master_port") or process.environ["MASTER_PORT"]
        assert found == port


def test_what_the_operator_writes_into_local_rank_is_not_read(check):
    pod = {**pytorch(2, 2, 1), "LOCAL_RANK": "{0,1}"}
    assert [process.environ["LOCAL_RANK"] for process in check.plan(pod).processes] == ["0", "1"]


@pytest.mark.parametrize("name", ["LOCAL_WORLD_SIZE", "WORLD_SIZE", "RANK"])
def test_without_one_of_the_three_the_table_is_waited_for(check, name):
    pod = pytorch(2, 2, 1)
    del pod[name]
    assert check(pod).code == 75


def test_below_a_torchrun_the_table_is_waited_for(check):
    assert check({**pytorch(2, 2, 1), "TORCHELASTIC_RUN_ID": "job"}).code == 75


def test_the_job_has_the_id_of_the_task(check):
    for process in check.plan(pytorch(1, 1, 0)).processes:
        assert process.environ["JOB_ID"] == pytorch(1, 1, 0)["MINDX_TASK_ID"]


@pytest.mark.parametrize("options", [(), ("--method", "torchrun"), ("--rank-table", "none.json")])
@pytest.mark.parametrize(("pod", "name"), [(pytorch, "Master"), (tensorflow, "Chief")])
def test_a_master_without_npus_does_not_start_the_ranks_of_the_first_worker(
    check, pod, name, options
):
    """Ascend Operator gives both the number 0."""
    if (name, options) == ("Chief", ("--method", "torchrun")):
        options = ("--method", "ranktable")
    leader = {**pod(4, 2, 0), "HOSTNAME": f"job-{name.lower()}-0"}
    refusal = check.refusal(leader, *options)
    assert f"'job-{name.lower()}-0' is the {name} of its job and has no NPU" in refusal
    assert check.plan({**pod(4, 2, 0), "HOSTNAME": "job-worker-0"}).ranks == [0, 1, 2, 3]
    assert check.plan(leader, "--method", "once").ranks == [None]
