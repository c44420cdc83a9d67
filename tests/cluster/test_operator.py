"""What the variables of Ascend Operator declare: the pods, their ranks, and which pod is ours."""

from __future__ import annotations

import pytest

from ascend_supervisor.cluster.declared import (
    Chief,
    Declared,
    Framework,
    Scheduler,
    TorchStore,
)
from ascend_supervisor.cluster.platforms import declared, meeting_of, platform_of
from ascend_supervisor.cluster.rank_table import Format
from ascend_supervisor.errors import SettingsRefused

PYTORCH = {
    "MASTER_ADDR": "10.96.0.7",
    "MASTER_PORT": "2222",
    "WORLD_SIZE": "6",
    "LOCAL_WORLD_SIZE": "2",
    "RANK": "1",
    "LOCAL_RANK": "0,1",
}
"""What the Operator gives the second of three pods with two NPUs each."""

MINDSPORE = {
    "MS_ROLE": "MS_WORKER",
    "MS_SCHED_HOST": "10.96.0.9",
    "MS_SCHED_PORT": "2222",
    "MS_SERVER_NUM": "0",
    "MS_WORKER_NUM": "4",
    "MS_LOCAL_WORKER": "2",
    "MS_NODE_RANK": "1",
    "NPU_POD": "true",
}
"""What it gives the second of two Workers, in a job whose Scheduler has no NPUs."""
SCHEDULER = {
    **MINDSPORE,
    "MS_ROLE": "MS_SCHED",
    "MS_SCHED_HOST": "172.16.0.5",
    "MS_NODE_RANK": "0",
    "NPU_POD": "false",
}
"""What it gives the Scheduler of the same job."""

TENSORFLOW = {
    "CM_CHIEF_IP": "10.96.0.8",
    "CM_CHIEF_PORT": "2222",
    "CM_CHIEF_DEVICE": "0",
    "CM_WORKER_SIZE": "4",
    "CM_LOCAL_WORKER": "2",
    "CM_WORKER_IP": "172.16.0.6",
    "CM_RANK": "1",
}
"""What it gives the first Worker beside a Chief, with two NPUs each."""


def read(environ: dict[str, str], node_rank: int | None = None) -> Declared:
    platform = platform_of(environ)
    assert platform is not None
    return declared(platform, environ, node_rank, 0)


def refusal(environ: dict[str, str], node_rank: int | None = None) -> str:
    with pytest.raises(SettingsRefused) as refused:
        read(environ, node_rank)
    return str(refused.value)


def test_the_ranks_of_a_pod_follow_those_of_the_pods_before_it():
    found = read(PYTORCH)
    devices = [[device.rank for device in entry.devices] for entry in found.table.entries]
    assert devices == [[0, 1], [2, 3], [4, 5]]
    assert found.node_rank == 1
    table = found.table
    assert (table.format, table.world_size, table.servers) == (Format.DECLARED, 6, 3)
    assert table.file_for_ranks is None


def test_local_rank_is_never_read():
    assert read({**PYTORCH, "LOCAL_RANK": "{0,1"}) == read(PYTORCH)


@pytest.mark.parametrize("missing", ["WORLD_SIZE", "LOCAL_WORLD_SIZE", "RANK"])
def test_two_of_the_three_variables_say_nothing(missing):
    assert platform_of({**PYTORCH, missing: ""}) is None


def test_variables_of_a_torchrun_above_us_say_nothing():
    assert platform_of({**PYTORCH, "TORCHELASTIC_RUN_ID": "job"}) is None
    assert meeting_of({**PYTORCH, "TORCHELASTIC_RUN_ID": "job"}) is None


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"LOCAL_WORLD_SIZE": "0"}, "expected a whole number from 1 to 16, found '0'"),
        ({"LOCAL_WORLD_SIZE": "17"}, "expected a whole number from 1 to 16, found '17'"),
        ({"WORLD_SIZE": "0"}, "expected a whole number from 1 to 1600000, found '0'"),
        ({"WORLD_SIZE": "many"}, "expected a whole number from 1 to 1600000, found 'many'"),
        (
            {"WORLD_SIZE": "7"},
            (
                "expected a multiple of LOCAL_WORLD_SIZE=2, because all pods have equally many "
                "NPUs, found 7"
            ),
        ),
        ({"RANK": "3"}, "expected a whole number from 0 to 2, found '3'"),
        ({"RANK": "-1"}, "expected a whole number from 0 to 2, found '-1'"),
    ],
)
def test_a_wrong_number_is_refused_by_its_name(changed, sentence):
    (name,) = changed
    assert refusal({**PYTORCH, **changed}) == f"{name}: {sentence}"


def test_the_option_comes_before_the_variable():
    assert read(PYTORCH, 2).node_rank == 2
    assert refusal(PYTORCH, 3) == (
        "--node-rank: expected a whole number from 0 to 2, because the job has 3 pods, found 3"
    )


@pytest.mark.parametrize(
    ("changed", "store"),
    [
        ({}, TorchStore("10.96.0.7", 2222)),
        ({"MASTER_PORT": "none"}, TorchStore("10.96.0.7", None)),
        ({"MASTER_PORT": "65536"}, TorchStore("10.96.0.7", None)),
        ({"MASTER_ADDR": ""}, None),
    ],
)
def test_pytorch_ranks_meet_at_the_masters_service(changed, store):
    assert meeting_of({**PYTORCH, **changed}) == store


def test_a_mindspore_worker_is_numbered_by_the_operator():
    found = read(MINDSPORE)
    assert (found.table.world_size, found.table.servers, found.node_rank) == (4, 2, 1)
    assert [device.rank for device in found.table.entries[1].devices] == [2, 3]
    assert meeting_of(MINDSPORE) == Scheduler("10.96.0.9", 2222, is_here=False)


def test_a_scheduler_without_npus_stands_beside_the_pods_with_ranks():
    found = read(SCHEDULER)
    assert [len(entry.devices) for entry in found.table.entries] == [2, 2, 0]
    assert (found.table.world_size, found.table.servers, found.node_rank) == (4, 2, 2)
    assert meeting_of(SCHEDULER) == Scheduler("172.16.0.5", 2222, is_here=True)


@pytest.mark.parametrize("known", ["0", ""])
def test_a_scheduler_with_npus_is_the_first_pod(known):
    found = read({**SCHEDULER, "NPU_POD": "true", "MS_NODE_RANK": known})
    assert [len(entry.devices) for entry in found.table.entries] == [2, 2]
    assert found.node_rank == 0


OLDER = {
    name: value for name, value in MINDSPORE.items() if name not in {"MS_NODE_RANK", "NPU_POD"}
}
"""The same Worker before the Operator told its number, and whether it has NPUs."""


@pytest.mark.parametrize("name", ["MA_CURRENT_INSTANCE_NAME", "POD_NAME"])
def test_in_older_releases_the_name_of_a_worker_ends_in_its_number(name):
    assert read({**OLDER, name: "job-worker-1"}).node_rank == 1
    assert read({**OLDER, name: "job-worker-1"}, 0).node_rank == 0
    assert read({**MINDSPORE, name: "job-worker-0"}).node_rank == 1


@pytest.mark.parametrize(
    "changed",
    [
        *({"POD_NAME": name} for name in ("job-worker-2", "job-worker", "worker-1-x", "")),
        {"HOSTNAME": "npu-worker-1"},  # in the network of the host it is the host's
        {"POD_NAME": "job-worker-1", "NPU_POD": "true"},  # these releases number differently
    ],
)
def test_a_worker_without_a_number_is_refused(changed):
    assert refusal({**OLDER, **changed}) == (
        "MS_NODE_RANK is not set, and no name of this pod tells its number among the 2 of the job; "
        "give it with --node-rank, or the name with --pod-name or POD_NAME (it ends in -worker-0, "
        "-worker-1, ...)"
    )


def test_a_job_of_one_npu_needs_no_scheduler():
    alone = {"MS_ROLE": "MS_WORKER", "MS_WORKER_NUM": "1", "MS_LOCAL_WORKER": "1"}
    found = read(alone)
    assert (found.table.world_size, found.node_rank, meeting_of(alone)) == (1, 0, None)


def test_a_scheduler_needs_its_address():
    assert refusal({**SCHEDULER, "MS_SCHED_HOST": ""}) == (
        "MS_SCHED_HOST: expected the address where the ranks of all pods meet, found nothing"
    )


def test_other_roles_say_nothing():
    assert platform_of({**MINDSPORE, "MS_ROLE": "MS_PSERVER"}) is None


def test_a_tensorflow_pod_is_numbered_with_its_chief_first():
    found = read(TENSORFLOW)
    assert (found.table.world_size, found.table.servers, found.node_rank) == (4, 2, 1)
    assert meeting_of(TENSORFLOW) == Chief("10.96.0.8", 2222)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (
            {"CM_CHIEF_IP": ""},
            "expected the address where the ranks of all pods meet, found nothing",
        ),
        ({"CM_LOCAL_WORKER": ""}, "expected a whole number from 1 to 16, found nothing"),
        ({"CM_RANK": "2"}, "expected a whole number from 0 to 1, found '2'"),
    ],
)
def test_what_a_tensorflow_pod_lacks_is_named(changed, sentence):
    (name,) = changed
    assert refusal({**TENSORFLOW, **changed}) == f"{name}: {sentence}"


def test_mindspore_comes_before_tensorflow_and_that_before_pytorch():
    assert read({**PYTORCH, **TENSORFLOW}).framework is Framework.TENSORFLOW
    assert read({**PYTORCH, **TENSORFLOW, **MINDSPORE}).framework is Framework.MINDSPORE
