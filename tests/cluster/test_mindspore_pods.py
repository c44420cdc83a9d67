"""What is started in each pod of a MindSpore job of Ascend Operator: Scheduler and Workers."""

from __future__ import annotations

import pytest

from tests.checking import Process
from tests.pods import (
    EVERY_POD,
    PORT,
    SERVICE,
    mindspore_scheduler,
    mindspore_worker,
    of_an_older_operator,
    own_address,
)
from tests.rank_tables import TEMPLATE_1, data

IN_EVERY_POD = pytest.mark.parametrize(("cards", "pods", "node"), EVERY_POD)
CLUSTER = (
    *("MS_ROLE", "MS_SCHED_HOST", "MS_SCHED_PORT", "MS_SERVER_NUM", "MS_WORKER_NUM"),
    *("MS_LOCAL_WORKER", "RANK_TABLE_FILE"),
)
RANK = ("MS_NODE_ID", "RANK_ID", "RANK_SIZE", "DEVICE_ID", "ASCEND_DEVICE_ID")


def cluster(role: str, host: str, cards: int, pods: int) -> dict[str, str | None]:
    values = (role, host, PORT, "0", str(cards * pods), str(cards), None)
    return dict(zip(CLUSTER, values, strict=True))


def rank(cards: int, pods: int, node: int, local_rank: int) -> dict[str, str]:
    here = node * cards + local_rank
    values = (here, here, cards * pods, local_rank, local_rank)
    return dict(zip(RANK, map(str, values), strict=True))


def roles(processes: tuple[Process, ...]) -> list[str]:
    return [process.environ["MS_ROLE"] for process in processes]


@IN_EVERY_POD
def test_a_worker_pod_starts_workers_only(check, cards, pods, node):
    plan = check.plan(mindspore_worker(cards, pods, node))
    assert plan.shape == (cards * pods, pods)
    assert plan.node_rank == node
    assert plan.ranks == list(range(node * cards, (node + 1) * cards))
    for local_rank, worker in enumerate(plan.processes):
        assert worker.has(*CLUSTER) == cluster("MS_WORKER", SERVICE, cards, pods)
        assert worker.has(*RANK) == rank(cards, pods, node, local_rank)


@pytest.mark.parametrize(("cards", "pods"), [(1, 1), (4, 1), (4, 2)])
def test_a_scheduler_pod_without_npus_starts_the_scheduler_only(check, cards, pods):
    (scheduler,) = check.plan(mindspore_scheduler(cards, pods, npus=False)).processes
    assert scheduler.rank is None
    assert scheduler.has(*CLUSTER) == cluster("MS_SCHED", own_address(0), cards, pods)
    assert scheduler.environ["DEVICE_ID"] == "0"


@pytest.mark.parametrize(("cards", "pods"), [(1, 1), (4, 1), (4, 2)])
def test_a_scheduler_pod_with_npus_starts_its_workers_too(check, cards, pods):
    plan = check.plan(mindspore_scheduler(cards, pods, npus=True))
    assert sorted(roles(plan.processes)) == ["MS_SCHED", *["MS_WORKER"] * cards]
    workers = [process for process in plan.processes if process.rank is not None]
    assert roles(tuple(workers)) == ["MS_WORKER"] * cards
    for local_rank, worker in enumerate(workers):
        assert worker.has(*CLUSTER) == cluster("MS_WORKER", own_address(0), cards, pods)
        assert worker.has(*RANK) == rank(cards, pods, 0, local_rank)
    (scheduler,) = (process for process in plan.processes if process.rank is None)
    assert scheduler.has(*CLUSTER) == cluster("MS_SCHED", own_address(0), cards, pods)


def test_the_workers_beside_a_scheduler_with_npus_have_the_next_ranks(check):
    assert check.plan(mindspore_worker(2, 3, 1)).ranks == [2, 3]
    assert check.plan(mindspore_worker(2, 3, 2)).ranks == [4, 5]


@pytest.mark.parametrize(
    ("who", "options"),
    [
        ({"POD_NAME": "job-worker-1"}, ()),
        ({}, ("--pod-name", "job-worker-1")),
        ({"POD_NAME": "job-worker-0"}, ("--node-rank", "1")),
        ({}, ("--node-rank", "1")),
    ],
)
def test_an_older_operator_tells_the_node_rank_by_the_pods_name(check, who, options):
    pod = of_an_older_operator(mindspore_worker(2, 2, 1))
    assert check.plan({**pod, **who}, *options).ranks == [2, 3]


def test_an_older_operator_has_no_npus_in_the_schedulers_pod(check):
    pod = of_an_older_operator(mindspore_scheduler(2, 2, npus=False))
    assert roles(check.plan(pod).processes) == ["MS_SCHED"]


@pytest.mark.parametrize("method", ["mindspore", "msrun"])
def test_a_port_that_is_named_wins(check, method):
    options = ("--method", method, "--master-port", "8777")
    for process in check.plan(mindspore_scheduler(2, 2, npus=True), *options).processes:
        found = process.options.get("master_port") or process.environ["MS_SCHED_PORT"]
        assert found == "8777"


def test_where_the_operator_gives_no_port_it_is_that_of_mindspore(check):
    pod = mindspore_worker(1, 1, 0)
    del pod["MS_SCHED_PORT"]
    (worker,) = check.plan(pod).processes
    assert worker.environ["MS_SCHED_PORT"] == "8118"


@pytest.mark.parametrize(
    ("pod", "node"),
    [(mindspore_scheduler(4, 2, npus=True), 0), (mindspore_worker(4, 2, 1), 1)],
    ids=["Scheduler", "Worker"],
)
def test_msrun_has_its_arguments_from_the_variables(check, pod, node):
    (msrun,) = check.plan(pod, "--method", "msrun").processes
    assert msrun.argv[0] == "msrun"
    wanted = {
        "worker_num": "8",
        "local_worker_num": "4",
        "master_addr": pod["MS_SCHED_HOST"],
        "master_port": PORT,
        "node_rank": str(node),
        "join": "True",
    }
    assert {name: msrun.options[name] for name in wanted} == wanted
    assert "rank_table_file" not in msrun.options


@pytest.fixture
def first_server(tmp_path):
    """A table of two servers with four devices each, and that we are the first."""
    (tmp_path / "hccl.json").write_bytes(data(TEMPLATE_1))
    return {"RANK_TABLE_FILE": str(tmp_path / "hccl.json"), "XDL_IP": "10.0.5.1"}


def test_with_a_table_a_worker_pod_still_joins_the_jobs_scheduler(check, first_server):
    plan = check.plan({**mindspore_worker(4, 2, 0), **first_server})
    assert roles(plan.processes) == ["MS_WORKER"] * 4
    for worker in plan.processes:
        assert worker.environ["MS_SCHED_HOST"] == SERVICE
        assert worker.environ["MS_SCHED_PORT"] == PORT


def test_with_a_table_the_scheduler_pod_starts_the_scheduler_only(check, first_server):
    plan = check.plan({**mindspore_scheduler(4, 2, npus=False), **first_server})
    assert roles(plan.processes) == ["MS_SCHED"]
    assert plan.ranks == [None]


def test_ranks_that_read_the_table_do_not_wait_for_a_scheduler(check, first_server):
    plan = check.plan({**mindspore_worker(4, 2, 0), **first_server}, "--method", "ranktable")
    assert plan.ranks == [0, 1, 2, 3]
    told = [name for name in CLUSTER if name.startswith("MS_")]
    for process in plan.processes:
        assert process.has(*told) == dict.fromkeys(told)
        assert process.environ["RANK_TABLE_FILE"]
