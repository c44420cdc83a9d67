"""What the variables of Kubeflow declare, those of v1 and those of v2."""

from __future__ import annotations

import pytest

from ascend_supervisor.cluster.declared import Declared, TorchStore
from ascend_supervisor.cluster.platforms import declared, meeting_of, platform_of
from ascend_supervisor.errors import SettingsRefused

V1 = {
    "PET_NNODES": "2",
    "PET_NODE_RANK": "1",
    "PET_MASTER_ADDR": "job-master-0",
    "PET_MASTER_PORT": "23456",
    "MASTER_ADDR": "job-master-0",
    "MASTER_PORT": "23456",
    "WORLD_SIZE": "2",
    "RANK": "1",
}
"""A PyTorchJob's first Worker, where the job does not say nprocPerNode."""
V2 = {
    "PET_NNODES": "3",
    "PET_NPROC_PER_NODE": "4",
    "PET_NODE_RANK": "2",
    "PET_MASTER_ADDR": "job-node-0-0.job",
    "PET_MASTER_PORT": "29500",
}
"""The last pod of a TrainJob."""


def read(environ: dict[str, str], devices: int = 0, node_rank: int | None = None) -> Declared:
    assert platform_of(environ) == "kubeflow"
    return declared("kubeflow", environ, node_rank, devices)


def refusal(environ: dict[str, str]) -> str:
    with pytest.raises(SettingsRefused) as refused:
        read(environ)
    return str(refused.value)


def test_a_trainjob_says_all_of_it():
    found = read(V2)
    assert (found.table.world_size, found.table.servers, found.node_rank) == (12, 3, 2)
    assert [device.rank for device in found.table.entries[2].devices] == [8, 9, 10, 11]
    assert meeting_of(V2) == TorchStore("job-node-0-0.job", 29500)


@pytest.mark.parametrize("count", ["", "auto", "gpu", "cpu"])
def test_the_npus_of_a_pod_are_counted_where_the_job_does_not_say_how_many(count):
    environ = {**V1, "PET_NPROC_PER_NODE": count}
    assert read(environ, devices=8).table.world_size == 16
    found = repr(count) if count else "nothing"
    assert refusal(environ) == (
        f"PET_NPROC_PER_NODE: expected the number of NPUs of each pod, found {found}, and this pod "
        "has no /dev/davinci*; set it to the number"
    )


def test_the_number_of_the_job_comes_before_what_is_there():
    assert read({**V1, "PET_NPROC_PER_NODE": "2"}, devices=8).table.world_size == 4


def test_a_job_without_a_master_numbers_its_pods_in_rank():
    environ = {**V2, "PET_NODE_RANK": "", "RANK": "1"}
    assert read(environ).node_rank == 1
    assert read({**environ, "RANK": ""}, node_rank=2).node_rank == 2
    assert refusal({**environ, "RANK": ""}) == (
        "PET_NODE_RANK is not set: expected the number of this pod among the 3 of the job; give it "
        "with --node-rank"
    )


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (
            {"PET_NNODES": "1:4"},
            (
                "expected the number of pods, found the range '1:4': the ranks of an elastic job "
                "are not known in advance; remove its elasticPolicy, or start "
                "torchrun as it is: --method once -- torchrun ..."
            ),
        ),
        ({"PET_NNODES": "0"}, "expected a whole number from 1 to 100000, found '0'"),
        ({"PET_NPROC_PER_NODE": "0"}, "expected a whole number from 1 to 16, found '0'"),
        ({"PET_NODE_RANK": "3"}, "expected a whole number from 0 to 2, found '3'"),
    ],
)
def test_what_cannot_be_is_refused_by_its_name(changed, sentence):
    (name,) = changed
    assert refusal({**V2, **changed}) == f"{name}: {sentence}"


def test_variables_of_a_torchrun_above_us_say_nothing():
    assert platform_of({**V2, "TORCHELASTIC_RUN_ID": "job"}) is None


@pytest.mark.parametrize(
    ("environ", "store"),
    [
        ({**V2, "PET_MASTER_ADDR": ""}, None),
        ({**V2, "PET_MASTER_PORT": ""}, TorchStore("job-node-0-0.job", None)),
        ({**V1, "PET_MASTER_ADDR": "", "PET_MASTER_PORT": ""}, TorchStore("job-master-0", 23456)),
    ],
)
def test_ranks_meet_where_the_first_pod_is(environ, store):
    assert meeting_of(environ) == store


ELASTIC = {
    "PET_NNODES": "1:1",
    "PET_NPROC_PER_NODE": "4",
    "PET_RDZV_BACKEND": "c10d",
    "PET_RDZV_ENDPOINT": "job-worker-0:23456",
}
"""The only Worker of an elastic PyTorchJob without a Master."""


def test_a_range_of_one_pod_is_one_pod(check):
    alone = read(ELASTIC)
    assert (alone.table.world_size, alone.table.servers, alone.node_rank) == (4, 1, 0)
    plan = check.plan(ELASTIC)
    assert plan.ranks == [0, 1, 2, 3]
    assert plan.processes[0].environ["MASTER_ADDR"] == "127.0.0.1"
    assert check.plan(ELASTIC, "--standalone", "2").ranks == [0, 1]  # it would train alone anyway


@pytest.mark.parametrize("world_size", ["1", "4"])
def test_a_master_may_be_the_one_pod(world_size):
    master = {"RANK": "0", "WORLD_SIZE": world_size, "MASTER_ADDR": "localhost"}
    assert read({**ELASTIC, **master}).table.servers == 1


@pytest.mark.parametrize(
    ("nodes", "more"),
    [
        ("2:2", {}),
        ("1:1", {"WORLD_SIZE": "2", "RANK": "0"}),
        ("1:1", {"WORLD_SIZE": "8", "RANK": "0"}),
        ("1:1", {"WORLD_SIZE": "2", "RANK": "1"}),
        ("1:1", {"PET_NODE_RANK": "1"}),
        ("2", {"WORLD_SIZE": "3", "RANK": "2"}),
        ("2", {"WORLD_SIZE": "12", "RANK": "0"}),
    ],
)
def test_kubeflows_count_of_an_elastic_job_leaves_out_its_master(check, nodes, more):
    environ = {**ELASTIC, "PET_NNODES": nodes, "MASTER_ADDR": "job-master-0", **more}
    said = check.refusal(environ)
    assert "Kubeflow counts the Workers of an elastic job only, not its Master" in said
    assert "remove its elasticPolicy, or start torchrun as it is: --method once" in said
    assert "each pod would train alone" in check.refusal(environ, "--standalone", "2")
