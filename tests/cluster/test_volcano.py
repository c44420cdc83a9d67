"""Jobs of Volcano with several tasks: VC_TASK_INDEX counts within each, so it is no server's."""

from __future__ import annotations

import json

import pytest

from ascend_supervisor.cluster.identity import find_entry, identity_of
from ascend_supervisor.cluster.platforms import (
    check_alone,
    index_told,
    master_address,
    node_rank_told,
)
from ascend_supervisor.cluster.volcano import hosts
from ascend_supervisor.errors import SettingsRefused, TableRefused
from tests.rank_tables import A5, TEMPLATE_1, data, document, table

MASTER = "job-master-0.job"
OF_THE_JOB = {
    "VC_MASTER_HOSTS": MASTER,
    "VC_MASTER_NUM": "1",
    "VC_WORKER_HOSTS": "job-worker-0.job,job-worker-1.job",
    "VC_WORKER_NUM": "2",
    "MASTER_ADDR": MASTER,
    "MASTER_PORT": "23456",
    "WORLD_SIZE": "3",
    "MA_NUM_GPUS": "2",
}
PODS = ("job-master-0", "job-worker-0", "job-worker-1")
NAMES = ("MA_CURRENT_INSTANCE_NAME", "POD_NAME", "HOSTNAME")
METHODS = ("torchrun", "msrun", "mindspore", "torch-ddp")


def pod(server: int, name: str = "HOSTNAME") -> dict[str, str]:
    """The variables of this server of the job; ``name`` is the one that names its pod."""
    index = str(max(server - 1, 0))
    told = {"RANK": str(server)} if name == "RANK" else {name: PODS[server]}
    return {**OF_THE_JOB, "VC_TASK_INDEX": index, "VK_TASK_INDEX": index, **told}


def without(variables: dict[str, str], *names: str) -> dict[str, str]:
    return {name: value for name, value in variables.items() if name not in names}


@pytest.mark.parametrize("name", [*NAMES, "RANK"])
@pytest.mark.parametrize("method", METHODS)
def test_every_server_of_two_tasks_is_another_one(check, method, name):
    plans = [check.plan(pod(server, name), "--method", method) for server in range(3)]
    assert [plan.node_rank for plan in plans] == [0, 1, 2]
    assert {plan.shape for plan in plans} == {(6, 3)}


def test_ranks_meet_at_the_master_and_not_at_the_first_worker(check):
    for server in range(3):
        (torchrun,) = check.plan(pod(server), "--method", "torchrun").processes
        told = torchrun.options
        assert (told["master_addr"], told["node_rank"]) == (MASTER, str(server))
        (ddp,) = check.plan(pod(server), "--method", "torch-ddp").processes
        assert f"tcp://{MASTER}:23456" in ddp.argv
        *_, worker = check.plan(pod(server), "--method", "mindspore").processes
        assert worker.environ["MS_SCHED_HOST"] == MASTER


@pytest.mark.parametrize("method", METHODS)
def test_an_index_alone_is_refused_with_what_to_give(check, method):
    nameless = without(pod(1), "HOSTNAME")
    refusal = check.refusal(nameless, "--method", method)
    assert "VC_MASTER_HOSTS and VC_WORKER_HOSTS name the hosts of several tasks" in refusal
    assert "--node-rank" in refusal
    assert "POD_NAME" in refusal
    assert check.plan(nameless, "--method", method, "--node-rank", "1").node_rank == 1
    named = ("--pod-name", "job-worker-0")
    assert check.plan(nameless, "--method", method, *named).node_rank == 1


def test_a_rank_of_a_torchrun_above_is_not_the_number_of_a_pod(check):
    below = {**pod(1, "RANK"), "TORCHELASTIC_RUN_ID": "x"}
    assert "--node-rank" in check.refusal(below, "--method", "torchrun")


def test_one_task_of_any_name_is_a_job_whose_index_counts(check):
    one = {"VC_TRAINER_HOSTS": "job-trainer-0.job,job-trainer-1.job", "VC_TASK_INDEX": "1"}
    plan = check.plan({**one, "MA_NUM_GPUS": "2"}, "--method", "torchrun")
    assert (plan.shape, plan.node_rank) == ((4, 2), 1)
    assert plan.processes[0].options["master_addr"] == "job-trainer-0.job"


def test_a_list_that_comes_twice_is_one_task(check):
    twice = {"VC_WORKER_HOSTS": "a.job,b.job", "VC_ALL_HOSTS": "a.job, b.job"}
    plan = check.plan({**twice, "VC_TASK_INDEX": "1", "MA_NUM_GPUS": "1"}, "--method", "torchrun")
    assert (plan.shape, plan.node_rank) == ((2, 2), 1)


def test_the_task_of_the_master_address_comes_first_then_master_then_worker():
    lists = {"VC_PS_HOSTS": "p.j", "VC_WORKER_HOSTS": "w.j", "VC_EVAL_HOSTS": "e.j"}
    assert hosts(lists) == ("w.j", "e.j", "p.j")
    assert hosts({**lists, "VC_MASTER_HOSTS": "m.j"}) == ("m.j", "w.j", "e.j", "p.j")
    assert hosts({**lists, "MASTER_ADDR": "p.j.ns.svc.cluster.local"}) == ("p.j", "w.j", "e.j")


def test_fewer_hosts_than_the_lists_name_are_the_first_ones(check):
    """A task that only looks on may be left out by MA_NUM_HOSTS."""
    more = {**OF_THE_JOB, "VC_TENSORBOARD_HOSTS": "job-tensorboard-0.job", "MA_NUM_HOSTS": "3"}
    plan = check.plan({**more, "HOSTNAME": "job-worker-1"}, "--method", "torchrun")
    assert (plan.shape, plan.node_rank) == ((6, 3), 2)
    refusal = check.refusal({**more, "HOSTNAME": "job-tensorboard-0"}, "--method", "torchrun")
    assert "MA_NUM_HOSTS" in refusal
    assert "number 3" in refusal


def test_a_task_of_tensorflow_has_numbers_of_its_own(check):
    """The method starts ps or worker in each pod, and both count from 0."""
    job = {"VC_PS_HOSTS": "j-ps-0.j,j-ps-1.j", "VC_WORKER_HOSTS": "j-worker-0.j,j-worker-1.j"}
    job |= {"TF_PS_HOSTS": "a:1,b:1", "TF_WORKER_HOSTS": "c:1,d:1", "VC_TASK_INDEX": "1"}
    for task in ("ps", "worker"):
        (process,) = check.plan(
            {**job, "MA_NUM_GPUS": "1", "MA_TASK_NAME": task}, "--method", "tensorflow"
        ).processes
        assert process.argv[-1] == task
        assert ("--task_index", "1") in zip(process.argv, process.argv[1:], strict=False)


# With a rank table.


def two_groups() -> dict[str, object]:
    """Template 2, as Volcano's controller writes it for two tasks: the workers' group first."""
    of_task = {"worker": ("job-worker-0", "job-worker-1"), "master": ("job-master-0",)}
    groups = []
    for number, (task, pods) in enumerate(of_task.items()):
        instances = [
            {
                "pod_name": name,
                "server_id": f"10.1.{number}.{index}",
                "devices": [{"device_id": "0", "device_ip": f"192.1.{number}.{index + 1}"}],
            }
            for index, name in enumerate(pods)
        ]
        groups.append(
            {
                "group_name": task,
                "device_count": str(len(pods)),
                "instance_count": str(len(pods)),
                "instance_list": instances,
            }
        )
    return {"status": "completed", "group_count": "2", "group_list": groups}


@pytest.mark.parametrize("name", [*NAMES, "RANK"])
def test_in_a_table_the_pods_name_decides_and_never_the_index(tmp_path, check, name):
    file = tmp_path / "hccl.json"
    file.write_text(json.dumps(two_groups()))
    plans = [check.plan(pod(s, name), "--rank-table", str(file)) for s in range(3)]
    assert [plan.ranks for plan in plans] == [[2], [0], [1]]
    assert {plan.processes[0].environ["MASTER_ADDR"] for plan in plans} == {MASTER}


def test_without_an_address_of_the_platform_ranks_meet_where_the_table_has_rank_0():
    environ = without(OF_THE_JOB, "MASTER_ADDR")
    assert master_address(table(two_groups()), environ) == "job-worker-0.job"
    reordered = two_groups()
    reordered["group_list"] = reordered["group_list"][::-1]  # type: ignore[index]
    assert master_address(table(reordered), environ) == MASTER


def test_of_one_task_the_first_host_counts_only_if_rank_0_is_there():
    moved = document("template2-two-pods-one-host")
    for instance, name in zip(moved["group_list"][0]["instance_list"], "ba", strict=True):
        instance["pod_name"] = f"w-{name}"
    environ = {"VC_WORKER_HOSTS": "w-a.j,w-b.j"}
    assert master_address(table(moved), environ) == "w-b.j"
    assert master_address(table(moved), {**environ, "MASTER_ADDR": "svc"}) == "svc"
    assert master_address(table(TEMPLATE_1), environ) == "w-a.j"


def test_in_a_table_without_names_the_place_among_all_hosts_counts():
    for server in range(2):
        environ = {**pod(server), "VC_WORKER_HOSTS": "job-worker-0.job"}
        assert find_entry(table(A5), identity_of(environ))[0] == server


def test_in_a_table_of_the_workers_alone_the_place_among_them_counts():
    """The master has no NPU, so it is in no table."""
    for name in (TEMPLATE_1, A5):
        places = [find_entry(table(name), identity_of(pod(server)))[0] for server in (1, 2)]
        assert places == [0, 1]


@pytest.mark.parametrize("name", [TEMPLATE_1, A5])
def test_in_a_table_an_index_alone_is_refused(name):
    with pytest.raises(TableRefused) as refused:
        find_entry(table(name), identity_of(without(pod(1), "HOSTNAME")))
    assert "VC_TASK_INDEX counts within one of them" in str(refused.value)
    assert "--node-rank" in str(refused.value)


def test_addresses_and_options_decide_as_ever(tmp_path, check):
    file = tmp_path / "hccl.json"
    file.write_bytes(data(TEMPLATE_1))
    nameless = without(pod(1), "HOSTNAME")
    assert check.plan({**nameless, "XDL_IP": "10.0.5.2"}, "--rank-table", str(file)).node_rank == 1
    assert check.plan(nameless, "--rank-table", str(file), "--node-rank", "1").node_rank == 1


# With --servers, --standalone and --method once.


@pytest.mark.parametrize("name", [*NAMES, "RANK"])
def test_with_servers_the_place_among_all_hosts_is_the_number(name):
    assert [index_told(pod(server, name), 3) for server in range(3)] == [0, 1, 2]
    assert index_told(pod(2, name), 2) is None  # a spare
    assert [node_rank_told(pod(server, name)) for server in range(3)] == [0, 1, 2]


def test_with_servers_an_index_alone_is_refused():
    with pytest.raises(SettingsRefused, match="--node-rank"):
        index_told(without(pod(1), "HOSTNAME"), 3)
    assert index_told({**without(pod(1), "HOSTNAME"), "JOB_COMPLETION_INDEX": "2"}, 3) == 2


def test_once_knows_its_server(check):
    plan = check.plan(pod(2), "--method", "once")
    assert (plan.node_rank, plan.shape) == (2, (0, 3))


def test_a_pod_of_two_tasks_is_not_alone():
    alone = {"VC_MASTER_HOSTS": "m.j", "VC_WORKER_HOSTS": "w.j"}
    with pytest.raises(SettingsRefused, match=r"VC_MASTER_HOSTS='m\.j' and VC_WORKER_HOSTS='w\.j'"):
        check_alone(alone)
