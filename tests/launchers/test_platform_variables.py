"""What ranks and launchers get in a pod of Ascend Operator or Kubeflow, without a rank table."""

from __future__ import annotations

from pathlib import PurePath

import pytest

from ascend_supervisor.cluster.cluster_source import cluster_of
from ascend_supervisor.cluster.identity import find_entry
from ascend_supervisor.cluster.table_source import identity
from ascend_supervisor.job_files import place_of
from ascend_supervisor.launchers import Here
from ascend_supervisor.launchers.choice import launcher_of
from ascend_supervisor.launchers.process_spec import ProcessSpec
from tests.cluster.test_kubeflow import V2
from tests.cluster.test_operator import PYTORCH
from tests.job_settings import settings


def plan(environ: dict[str, str], *options: str) -> tuple[ProcessSpec, ...]:
    read = settings(*options, env=environ)
    launcher = launcher_of(read, environ)
    cluster = cluster_of(read, environ, (), launcher.needs_table_file)
    assert cluster.given is not None
    table = cluster.given.table
    place = place_of(environ, "pod", mounted_log_exists=False, here=PurePath("/"))
    node_rank, entry = find_entry(table, identity(read, environ, cluster))
    return launcher.plan(table, Here(node_rank, entry, place), 0)


def test_pytorch_ranks_get_what_env_needs():
    assert [spec.rank for spec in plan(PYTORCH)] == [2, 3]
    for local_rank, spec in enumerate(plan(PYTORCH)):
        expected = {
            "RANK": f"{2 + local_rank}",
            "LOCAL_RANK": f"{local_rank}",
            "WORLD_SIZE": "6",
            "LOCAL_WORLD_SIZE": "2",
            "GROUP_RANK": "1",
            "NODE_RANK": "1",
            "MASTER_ADDR": "10.96.0.7",
            "MASTER_PORT": "2222",
            "RANK_ID": f"{2 + local_rank}",
            "RANK_SIZE": "6",
            "DEVICE_ID": f"{local_rank}",
            "ASCEND_DEVICE_ID": f"{local_rank}",
        }
        assert expected.items() <= spec.environ.items()
        assert spec.environ["RANK_TABLE_FILE"] is None


def test_the_masters_service_comes_before_the_names_of_workers():
    environ = {**PYTORCH, "VC_WORKER_HOSTS": "job-worker-0.job,job-worker-1.job"}
    assert {spec.environ["MASTER_ADDR"] for spec in plan(environ)} == {"10.96.0.7"}


@pytest.mark.parametrize("method", ["ranktable", "torchrun"])
def test_the_port_that_was_given_comes_before_the_operators(method):
    (told, *_) = plan(PYTORCH, "--method", method, "--master-port", "2300")
    assert "2300" in (told.environ.get("MASTER_PORT"), *(w[-4:] for w in told.argv))


def test_torchrun_gets_counts_and_place_from_the_variables():
    (spec,) = plan(PYTORCH, "--method", "torchrun")
    assert {
        *("--nnodes=3", "--nproc_per_node=2", "--node_rank=1"),
        *("--master_addr=10.96.0.7", "--master_port=2222"),
    } <= set(spec.argv)


def test_torchrun_in_a_single_pod_meets_itself():
    environ = {**PYTORCH, "WORLD_SIZE": "2", "RANK": "0"}
    (spec,) = plan(environ, "--method", "torchrun")
    assert {"--standalone", "--nnodes=1", "--nproc_per_node=2"} <= set(spec.argv)


def test_torch_ddp_counts_pods():
    (spec,) = plan(PYTORCH, "--method", "torch-ddp")
    assert spec.argv[-6:] == (
        *("--init_method", "tcp://10.96.0.7:2222"),
        *("--rank", "1", "--world_size", "3"),
    )


def test_standalone_meets_at_this_machine():
    environ = {**PYTORCH, "WORLD_SIZE": "2", "RANK": "0"}
    assert {spec.environ["MASTER_ADDR"] for spec in plan(environ, "--standalone", "2")} == {
        "127.0.0.1"
    }


def test_ranks_of_kubeflow_get_what_env_needs_and_keep_its_variables():
    first, *_ = specs = plan(V2)
    assert [spec.rank for spec in specs] == [8, 9, 10, 11]
    expected = {"MASTER_ADDR": "job-node-0-0.job", "MASTER_PORT": "29500", "WORLD_SIZE": "12"}
    assert expected.items() <= first.environ.items()
    assert not {name for name in first.environ if name.startswith("PET_")}


def test_torchrun_in_a_pod_of_kubeflow():
    (spec,) = plan(V2, "--method", "torchrun")
    assert {
        *("--nnodes=3", "--nproc_per_node=4", "--node_rank=2"),
        *("--master_addr=job-node-0-0.job", "--master_port=29500"),
    } <= set(spec.argv)


def test_mindspore_in_a_pod_of_kubeflow_meets_in_its_first():
    worker, *_ = plan(V2, "--method", "mindspore")
    expected = {"MS_SCHED_HOST": "job-node-0-0.job", "MS_SCHED_PORT": "29500"}
    assert expected.items() <= worker.environ.items()
