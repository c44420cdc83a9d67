"""Variables that describe no cluster, or none for this method, are refused by their names."""

from __future__ import annotations

import pytest

from tests.pods import (
    kubeflow_v1,
    mindspore_scheduler,
    mindspore_worker,
    of_an_older_operator,
    pytorch,
    tensorflow,
    trainer_v2,
)
from tests.rank_tables import TEMPLATE_1, data
from tests.running import python

PYTORCH = pytorch(4, 2, 1)
WORKER = mindspore_worker(4, 2, 1)
TENSORFLOW = tensorflow(4, 2, 1)
V1 = kubeflow_v1(4, 2, 1)
V2 = trainer_v2(4, 2, 1)


@pytest.mark.parametrize(
    ("pod", "name", "value"),
    [
        (PYTORCH, "LOCAL_WORLD_SIZE", "0"),
        (PYTORCH, "WORLD_SIZE", "0"),
        (PYTORCH, "WORLD_SIZE", "7"),
        (PYTORCH, "WORLD_SIZE", "eight"),
        (PYTORCH, "RANK", "2"),
        (PYTORCH, "RANK", "-1"),
        (WORKER, "MS_LOCAL_WORKER", "0"),
        (WORKER, "MS_WORKER_NUM", "0"),
        (WORKER, "MS_WORKER_NUM", "7"),
        (WORKER, "MS_NODE_RANK", "2"),
        (WORKER, "MS_NODE_RANK", "first"),
        (TENSORFLOW, "CM_LOCAL_WORKER", "0"),
        (TENSORFLOW, "CM_WORKER_SIZE", "0"),
        (TENSORFLOW, "CM_WORKER_SIZE", "7"),
        (TENSORFLOW, "CM_RANK", "2"),
        (V1, "PET_NNODES", "0"),
        (V1, "PET_NNODES", "1:4"),
        (V1, "PET_NODE_RANK", "2"),
        (V1, "PET_NPROC_PER_NODE", "0"),
        (V2, "PET_NNODES", "0"),
        (V2, "PET_NNODES", "two"),
        (V2, "PET_NODE_RANK", "2"),
        (V2, "PET_NPROC_PER_NODE", "auto"),
        (V2, "PET_NPROC_PER_NODE", "gpu"),
    ],
)
def test_a_wrong_value_is_named(check, pod, name, value):
    sentence = check.refusal({**pod, name: value})
    assert name in sentence
    assert value in sentence


def test_without_devices_the_number_of_processes_must_be_told(check):
    assert "PET_NPROC_PER_NODE" in check.refusal(kubeflow_v1(None, 2, 1))


@pytest.mark.parametrize("pod", [V1, V2], ids=["v1", "v2"])
def test_a_pod_of_several_without_a_node_rank_is_refused(check, pod):
    left = {name: value for name, value in pod.items() if name not in {"PET_NODE_RANK", "RANK"}}
    assert "PET_NODE_RANK" in check.refusal(left)


@pytest.mark.parametrize("who", [{}, {"POD_NAME": "job-worker"}, {"POD_NAME": "job-worker-2"}])
def test_an_older_worker_pod_whose_name_has_no_index_is_refused(check, who):
    assert "--node-rank" in check.refusal({**of_an_older_operator(WORKER), **who})


@pytest.mark.parametrize(
    ("method", "pod", "right"),
    [
        ("msrun", PYTORCH, "PyTorch"),
        ("mindspore", PYTORCH, "PyTorch"),
        ("torchrun", WORKER, "MS_ROLE"),
        ("torchrun", mindspore_scheduler(4, 2, npus=True), "MS_ROLE"),
        ("torchrun", TENSORFLOW, "CM_WORKER_SIZE"),
        ("msrun", TENSORFLOW, "CM_WORKER_SIZE"),
        ("msrun", mindspore_scheduler(4, 2, npus=False), "--method mindspore"),
    ],
)
def test_the_launcher_of_another_framework_is_refused(check, method, pod, right):
    sentence = check.refusal(pod, "--method", method)
    assert method in sentence
    assert right in sentence


@pytest.mark.parametrize("pod", [PYTORCH, WORKER, TENSORFLOW, V1, V2])
def test_a_pod_of_several_does_not_train_alone(check, pod):
    sentence = check.refusal(pod, "--standalone", "4")
    assert sentence.startswith("ascend_supervisor: --standalone: expected a job of one pod")


@pytest.mark.parametrize("pod", [mindspore_worker(4, 1, 0), {"WORLD_SIZE": "4", "RANK": "1"}])
def test_a_pod_that_has_partners_does_not_train_alone(check, pod):
    """Its scheduler is elsewhere; or it is not the first, whatever WORLD_SIZE counts."""
    assert "each pod would train alone" in check.refusal(pod, "--standalone", "4")


@pytest.mark.parametrize(
    ("pod", "name"),
    [
        (PYTORCH, "MASTER_ADDR"),
        (V1, "PET_MASTER_ADDR"),
        (V2, "PET_MASTER_ADDR"),
        (TENSORFLOW, "CM_CHIEF_IP"),
    ],
)
def test_several_pods_that_cannot_meet_are_refused(check, pod, name):
    left = {key: value for key, value in pod.items() if "MASTER_ADDR" not in key and key != name}
    sentence = check.refusal(left)
    assert f"{name}" in sentence
    assert "expected the address where the ranks of all pods meet, found nothing" in sentence


def test_a_single_pod_needs_no_address(check):
    assert check.plan({**pytorch(4, 1, 0), "MASTER_ADDR": ""}).ranks == [0, 1, 2, 3]


@pytest.mark.parametrize("node", [0, 1])
def test_a_pod_of_kubeflow_without_a_device_count_does_not_train_alone_either(check, node):
    assert "PET_NNODES" in check.refusal(kubeflow_v1(None, 2, node), "--standalone", "1")


def test_the_only_pod_of_a_job_may_train_alone(check):
    for pod in (pytorch(4, 1, 0), tensorflow(4, 1, 0), kubeflow_v1(4, 1, 0), trainer_v2(4, 1, 0)):
        plan = check.plan(pod, "--standalone", "4")
        assert plan.ranks == [0, 1, 2, 3]
        assert {process.environ["MASTER_ADDR"] for process in plan.processes} == {"127.0.0.1"}


def test_a_scheduler_pod_has_no_ranks_that_could_read_a_table(check, tmp_path):
    (tmp_path / "hccl.json").write_bytes(data(TEMPLATE_1))
    pod = {
        **mindspore_scheduler(4, 2, npus=False),
        "RANK_TABLE_FILE": str(tmp_path / "hccl.json"),
    }
    sentence = check.refusal(pod, "--method", "ranktable")
    assert "MS_ROLE=MS_SCHED" in sentence


@pytest.mark.parametrize(
    ("pod", "name"),
    [
        ({**PYTORCH, "WORLD_SIZE": "7"}, "WORLD_SIZE"),
        ({**V2, "PET_NNODES": "1:4"}, "PET_NNODES"),
        ({**WORKER, "MS_NODE_RANK": "2"}, "MS_NODE_RANK"),
    ],
)
def test_a_run_is_refused_as_its_check(supervised, pod, name):
    job = supervised(*python("pass"), environ=pod)
    assert job.end() == 64
    (sentence,) = job.stderr.splitlines()
    assert name in sentence
    assert job.events[-1]["event"] == "supervisor.exited"
    assert not job.all("process.started")
