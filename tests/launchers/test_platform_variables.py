"""What ranks and launchers get in a pod of Ascend Operator or Kubeflow, without a rank table."""

from __future__ import annotations

from pathlib import PurePath

import pytest

from ascend_supervisor.cluster.cluster_source import cluster_of, identity
from ascend_supervisor.cluster.identity import find_entry
from ascend_supervisor.job_files import place_of
from ascend_supervisor.launchers import Here
from ascend_supervisor.process_spec import ProcessSpec
from ascend_supervisor.program.premises import cluster_options
from tests.cluster.test_kubeflow import V2
from tests.cluster.test_operator import MINDSPORE, PYTORCH, SCHEDULER, TENSORFLOW
from tests.job_settings import launcher, settings
from tests.rank_tables import TEMPLATE_1, table


def plan(environ: dict[str, str], *options: str) -> tuple[ProcessSpec, ...]:
    read = settings(*options, env=environ)
    made = launcher(read, environ)
    cluster = cluster_of(cluster_options(read), environ, (), made.needs_table_file)
    assert cluster.given is not None
    declared = cluster.given.table
    place = place_of(environ, "pod", mounted_log_exists=False, here=PurePath("/"))
    node_rank, entry = find_entry(declared, identity(cluster_options(read), environ, cluster))
    return made.plan(declared, Here(node_rank, entry, place), 0)


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


def test_workers_join_the_scheduler_of_the_operator():
    specs = plan(MINDSPORE)
    assert [spec.rank for spec in specs] == [2, 3]
    for local_rank, spec in enumerate(specs):
        rank = f"{2 + local_rank}"
        expected = {
            **{name: MINDSPORE[name] for name in ("MS_ROLE", "MS_SCHED_HOST", "MS_SCHED_PORT")},
            "MS_WORKER_NUM": "4",
            "MS_NODE_ID": rank,
            "RANK_ID": rank,
            "DEVICE_ID": f"{local_rank}",
            "RANK_TABLE_FILE": None,
        }
        assert expected.items() <= spec.environ.items()
        assert not {"MS_SERVER_NUM", "MS_LOCAL_WORKER"} & spec.environ.keys()  # handed on


def test_the_first_worker_starts_no_scheduler_of_its_own():
    assert [spec.rank for spec in plan({**MINDSPORE, "MS_NODE_RANK": "0"})] == [0, 1]


def test_a_scheduler_without_npus_runs_the_command_once():
    (scheduler,) = plan({**SCHEDULER, "MS_RANKTABLE_ENABLE": "True"})
    expected = {
        "MS_ROLE": "MS_SCHED",
        "MS_SCHED_HOST": "172.16.0.5",
        "MS_SCHED_PORT": "2222",
        "MS_WORKER_NUM": "4",
        "DEVICE_ID": "0",
        "RANK_TABLE_FILE": None,
    }
    assert expected.items() <= scheduler.environ.items()
    assert not {"RANK_ID", "RANK_SIZE", "MS_NODE_ID"} & scheduler.environ.keys()
    assert (scheduler.name, scheduler.rank, scheduler.significant) == ("the scheduler", None, True)


def test_a_scheduler_with_npus_has_workers_beside_it():
    scheduler, *workers = plan({**SCHEDULER, "NPU_POD": "true"})
    assert (scheduler.environ["MS_ROLE"], scheduler.significant) == ("MS_SCHED", False)
    assert [spec.rank for spec in workers] == [0, 1]


def test_the_port_of_the_scheduler_is_the_option_else_the_operators_else_the_usual_one():
    ports = [
        plan(environ, *options)[0].environ["MS_SCHED_PORT"]
        for environ, options in (
            (MINDSPORE, ("--master-port", "2300")),
            ({**MINDSPORE, "MASTER_PORT": "1"}, ()),
            ({**MINDSPORE, "MS_SCHED_PORT": ""}, ()),
        )
    ]
    assert ports == ["2300", "2222", "8118"]


def test_msrun_gets_its_arguments_from_the_variables():
    (spec,) = plan(MINDSPORE, "--method", "msrun")
    assert {
        *("--worker_num=4", "--local_worker_num=2", "--node_rank=1", "--join=True"),
        *("--master_addr=10.96.0.9", "--master_port=2222"),
    } <= set(spec.argv)


def test_a_worker_of_one_npu_without_a_scheduler_finds_no_role():
    alone = {"MS_ROLE": "MS_WORKER", "MS_WORKER_NUM": "1", "MS_LOCAL_WORKER": "1"}
    (spec,) = plan(alone)
    assert {spec.environ[name] for name in alone} == {None}
    assert (spec.rank, spec.environ["RANK_TABLE_FILE"]) == (0, None)


def test_with_a_table_workers_still_join_the_scheduler_of_the_operator():
    read = table(TEMPLATE_1)
    place = place_of({}, "pod", mounted_log_exists=False, here=PurePath("/"))
    made = launcher(settings(env=MINDSPORE), MINDSPORE)
    specs = made.plan(read, Here(0, read.entries[0], place), 0)
    assert [spec.rank for spec in specs] == [device.rank for device in read.entries[0].devices]
    assert {spec.environ["MS_SCHED_HOST"] for spec in specs} == {"10.96.0.9"}


def test_tensorflow_ranks_get_their_device_and_no_variable_of_a_rank_table():
    specs = plan(TENSORFLOW)
    assert [spec.rank for spec in specs] == [2, 3]
    for local_rank, spec in enumerate(specs):
        expected = {
            "ASCEND_DEVICE_ID": f"{local_rank}",
            "DEVICE_INDEX": f"{2 + local_rank}",
            **dict.fromkeys(("RANK_ID", "RANK_SIZE", "RANK_TABLE_FILE")),
        }
        assert expected.items() <= spec.environ.items()
        changed = {name: spec.environ[name] for name in TENSORFLOW if name in spec.environ}
        assert changed == {"CM_CHIEF_PORT": "2222"}
        assert not {"RANK", "WORLD_SIZE", "DEVICE_ID"} & spec.environ.keys()


def test_the_port_of_the_chief_is_the_option_else_the_operators():
    (given, _), (usual, _) = (
        plan(TENSORFLOW, "--master-port", "9"),
        plan({**TENSORFLOW, "CM_CHIEF_PORT": ""}),
    )
    assert [given.environ["CM_CHIEF_PORT"], usual.environ["CM_CHIEF_PORT"]] == ["9", "2222"]


def test_with_a_table_no_variable_of_a_tensorflow_pod_reaches_a_rank():
    read = table(TEMPLATE_1)
    place = place_of({}, "pod", mounted_log_exists=False, here=PurePath("/"))
    made = launcher(settings(env=TENSORFLOW), TENSORFLOW)
    for spec in made.plan(read, Here(0, read.entries[0], place), 0):
        assert {spec.environ[name] for name in TENSORFLOW} == {None}
        assert spec.environ["RANK_ID"] is not None


@pytest.mark.parametrize(
    ("environ", "method"),
    [(PYTORCH, "torchrun"), (PYTORCH, "torch-ddp"), (MINDSPORE, "msrun"), (V2, "torchrun")],
)
def test_a_table_that_does_not_exist_is_named_to_no_process(environ, method):
    for spec in plan({**environ, "RANK_TABLE_FILE": "/missing/hccl.json"}, "--method", method):
        assert spec.environ["RANK_TABLE_FILE"] is None


def test_a_launcher_is_told_of_the_table_that_counts():
    read = table(TEMPLATE_1)
    place = place_of({}, "pod", mounted_log_exists=False, here=PurePath("/"))
    made = launcher(settings("--method", "torchrun", env=PYTORCH), PYTORCH)
    (spec,) = made.plan(read, Here(0, read.entries[0], place), 0)
    assert "RANK_TABLE_FILE" not in spec.environ
