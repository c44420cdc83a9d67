"""Which source of the cluster counts: --standalone, a rank table, or variables."""

from __future__ import annotations

from pathlib import Path

import pytest

from ascend_supervisor.cluster.cluster_source import Cluster, cluster_of, to_use_variables
from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.program.premises import cluster_options
from tests.cluster.test_operator import MINDSPORE, PYTORCH, SCHEDULER, TENSORFLOW
from tests.job_settings import launcher, settings

MODEL_ARTS = {"MA_NUM_HOSTS": "2", "MA_NUM_GPUS": "2"}


def chosen(
    environ: dict[str, str], *options: str, needs_file: bool | None = None, devices: int = 0
) -> Cluster:
    if needs_file is None:
        needs_file = launcher(settings(*options, env=environ), environ).needs_table_file
    paths = tuple(f"/dev/davinci{number}" for number in range(devices))
    return cluster_of(cluster_options(settings(*options, env=environ)), environ, paths, needs_file)


TWO_PODS = {
    "PET_NNODES": "2",
    "PET_NPROC_PER_NODE": "1",
    "PET_NODE_RANK": "0",
    "PET_MASTER_ADDR": "10.96.0.7",
}


def refusal(environ: dict[str, str], *options: str) -> str:
    with pytest.raises(SettingsRefused) as refused:
        chosen(environ, *options)
    return str(refused.value)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Where a rank table would be, in a directory that does not exist yet."""
    return tmp_path / "mounted" / "hccl.json"


def test_without_variables_the_table_is_waited_for():
    assert chosen({}) == Cluster("rank_table")


@pytest.mark.parametrize("needs_file", [True, False])
def test_where_no_table_can_come_variables_count(table, needs_file):
    found = chosen({**PYTORCH, "RANK_TABLE_FILE": str(table)}, needs_file=needs_file)
    assert (found.source, found.node_rank, found.hint) == ("operator", 1, None)
    assert found.given is not None
    assert found.given.table.world_size == 6


@pytest.mark.parametrize("content", ["", '{"status": "initializing"}'])
def test_a_file_of_a_table_wins_over_variables(table, content):
    table.parent.mkdir()
    table.write_text(content)
    found = chosen({**PYTORCH, "RANK_TABLE_FILE": str(table)})
    assert found.source == "rank_table"
    assert found.given is None
    assert found.hint == (
        "to take the cluster from the variables of Ascend Operator instead, unset RANK_TABLE_FILE"
    )


def test_a_usual_place_is_not_to_be_mounted_if_variables_are_to_count():
    assert to_use_variables("kubeflow", None, Path("/user/config")) == (
        "to take the cluster from the variables of Kubeflow instead, do not mount /user/config"
    )


def test_variables_that_do_not_count_are_not_checked(table):
    table.parent.mkdir()
    table.touch()
    environ = {**PYTORCH, "WORLD_SIZE": "7", "RANK_TABLE_FILE": str(table)}
    assert chosen(environ).source == "rank_table"


def test_where_a_table_may_come_only_methods_that_read_it_wait(table):
    table.parent.mkdir()
    environ = {**PYTORCH, "RANK_TABLE_FILE": str(table)}
    waiting, running = chosen(environ), chosen(environ, needs_file=False)
    assert (waiting.source, running.source) == ("rank_table", "operator")
    assert waiting.hint is not None
    assert waiting.hint.endswith("unset RANK_TABLE_FILE")
    assert running.hint == (f"to use the rank table, give --rank-table {table.parent}")


def test_a_directory_that_stands_where_the_file_should_be_is_no_table(table):
    table.mkdir(parents=True)
    environ = {**PYTORCH, "RANK_TABLE_FILE": str(table)}
    assert chosen(environ).source == "rank_table"
    assert chosen(environ, needs_file=False).source == "operator"


@pytest.mark.parametrize(
    ("options", "source"),
    [(("--rank-table", "t.json"), "rank_table"), (("--standalone",), "standalone")],
)
def test_what_an_option_says_comes_first(options, source):
    environ = {**PYTORCH, "WORLD_SIZE": "2", "RANK": "0"}
    assert chosen(environ, *options).source == source


def test_standalone_takes_the_devices_that_are_there():
    found = chosen({}, "--standalone", devices=3)
    assert found.given is not None
    assert found.given.table.world_size == 3


def test_modelarts_variables_count_only_where_no_file_is_read():
    assert chosen(MODEL_ARTS) == Cluster("rank_table")
    assert chosen(MODEL_ARTS, needs_file=False).source == "modelarts"
    assert chosen({**MODEL_ARTS, **PYTORCH}, needs_file=False).source == "operator"


@pytest.mark.parametrize("method", ["msrun", "mindspore", "tensorflow"])
def test_methods_of_other_frameworks_are_refused_under_pytorch_variables(method):
    assert refusal(PYTORCH, "--method", method).endswith(
        " ranks, but WORLD_SIZE=6 belongs to a PyTorch job of Ascend Operator; leave --method and "
        "MA_RUN_METHOD out, or use --method torchrun"
    )


@pytest.mark.parametrize("method", ["ranktable", "torchrun", "torch-ddp"])
def test_methods_for_pytorch_are_not(method):
    assert chosen(PYTORCH, "--method", method).source == "operator"


@pytest.mark.parametrize(
    ("pod", "evidence"), [(PYTORCH, "WORLD_SIZE=6"), (TWO_PODS, "PET_NNODES=2")]
)
def test_mpirun_is_refused_where_the_other_pods_have_no_names(pod, evidence):
    assert refusal(pod, "--method", "mpirun") == (
        f"--method mpirun needs the names of all pods, and {evidence} comes without them; give a "
        "rank table (--rank-table)"
    )


@pytest.mark.parametrize("options", [(), ("--rank-table", "hccl.json")])
def test_a_scheduler_without_npus_reads_no_table(table, options):
    table.parent.mkdir()
    table.touch()
    found = chosen({**SCHEDULER, "RANK_TABLE_FILE": str(table)}, *options)
    assert (found.source, found.node_rank, found.hint) == ("operator", 2, None)


def test_a_scheduler_without_npus_does_not_train_alone():
    assert "MS_ROLE=MS_SCHED: each pod would train alone" in refusal(
        {**SCHEDULER, "MS_WORKER_NUM": "2"}, "--standalone"
    )


@pytest.mark.parametrize("method", ["ranktable", "torchrun", "msrun", "mpirun", "tensorflow"])
def test_a_scheduler_without_npus_can_only_start_the_scheduler(method):
    sentence = refusal(SCHEDULER, "--method", method)
    assert f"--method {method}" in sentence
    assert "use --method mindspore" in sentence


@pytest.mark.parametrize("method", ["torchrun", "torch-ddp", "tensorflow"])
def test_methods_of_other_frameworks_are_refused_under_mindspore_variables(method):
    assert refusal(MINDSPORE, "--method", method).endswith(
        " ranks, but MS_ROLE=MS_WORKER belongs to a MindSpore job of Ascend Operator; leave "
        "--method and MA_RUN_METHOD out, or use --method mindspore"
    )


def test_mindspore_ranks_without_table_and_scheduler_are_refused():
    assert refusal(MINDSPORE, "--method", "ranktable") == (
        "--method ranktable needs a rank table for MindSpore, and none can come here; use --method "
        "mindspore, or mount the directory of the table"
    )


@pytest.mark.parametrize("changed", [{"MS_NODE_RANK": "0"}, {"NPU_POD": "false"}])
def test_msrun_needs_a_scheduler_pod_with_npus(changed):
    assert refusal({**MINDSPORE, **changed}, "--method", "msrun").startswith(
        "--method msrun starts MindSpore's scheduler only in a Scheduler pod that has NPUs"
    )


def test_ranks_that_would_read_a_table_are_refused_where_none_can_come():
    environ = {**MINDSPORE, "MS_RANKTABLE_ENABLE": "True"}
    assert refusal(environ) == (
        "--method mindspore reads a rank table where MS_RANKTABLE_ENABLE is set, and none can come "
        "here; unset it, or mount the directory of the table"
    )
    assert chosen({**SCHEDULER, "MS_RANKTABLE_ENABLE": "True"}).source == "operator"


@pytest.mark.parametrize("method", ["torchrun", "torch-ddp", "msrun", "mindspore"])
def test_methods_of_other_frameworks_are_refused_under_tensorflow_variables(method):
    assert refusal(TENSORFLOW, "--method", method).endswith(
        " ranks, but CM_WORKER_SIZE=4 belongs to a TensorFlow job of Ascend Operator; leave "
        "--method and MA_RUN_METHOD out"
    )
