"""Pods whose platform gives variables and no rank table, as whole jobs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.cluster.test_kubeflow import V2
from tests.cluster.test_operator import PYTORCH, TENSORFLOW
from tests.running import Running, python

TELL = "import os; print(*[os.environ.get(name) for name in %r])"


def said(
    supervised: Callable[..., Running], root: Path, environ: dict[str, str], names: tuple[str, ...]
) -> tuple[Running, list[list[str]]]:
    """A pod that has ended, and what its ranks said of these variables, in rank order."""
    root.mkdir()
    job = supervised(*python(TELL % (names,)), environ=environ, root=root)
    assert job.end() == 0
    ranks = job.wait_for("rank_table.ready")["local_ranks"]
    return job, [job.said(rank) for rank in ranks]


def test_the_pods_of_a_pytorch_job_have_all_ranks_once(supervised, tmp_path):
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "RANK_TABLE_FILE")
    told = []
    for node_rank in range(3):
        environ = {**PYTORCH, "RANK": f"{node_rank}"}
        told += said(supervised, tmp_path / f"{node_rank}", environ, names)[1]
    assert told == [[f"{rank} 6 {rank % 2} 10.96.0.7 2222 None"] for rank in range(6)]


def test_ranks_of_kubeflow_find_its_variables(supervised, tmp_path):
    names = ("RANK", "PET_NNODES", "PET_NODE_RANK")
    job, told = said(supervised, tmp_path / "pod", V2, names)
    assert told == [[f"{rank} 3 2"] for rank in (8, 9, 10, 11)]
    assert job.wait_for("supervisor.started")["cluster"] == "kubeflow"


def test_tensorflow_ranks_find_no_rank_id(supervised, tmp_path):
    names = ("CM_CHIEF_IP", "CM_RANK", "ASCEND_DEVICE_ID", "DEVICE_INDEX", "RANK_ID", "RANK_SIZE")
    environ = {**TENSORFLOW, "RANK_ID": "1", "RANK_SIZE": "2"}
    told = said(supervised, tmp_path / "pod", environ, names)[1]
    assert told == [["10.96.0.8 1 0 2 None None"], ["10.96.0.8 1 1 3 None None"]]


def test_the_source_of_the_cluster_is_told_and_how_to_choose_the_other(supervised, tmp_path):
    """The method reads no table, and the directory of one is there."""
    environ = {**PYTORCH, "RANK_TABLE_FILE": str(tmp_path)}
    words = ("--method", "torch-ddp", *python("pass"))
    job = supervised(*words, environ=environ)
    assert job.end() == 0
    with (tmp_path / "plan").open("wb") as stdout:
        assert supervised("--check", *words, environ=environ, stdout=stdout.fileno()).end() == 0
    plan, started = json.loads((tmp_path / "plan").read_text()), job.wait_for("supervisor.started")
    hint = f"to use the rank table, give --rank-table {tmp_path}"
    for told in (plan, started):
        assert (told["cluster"], told["cluster_hint"]) == ("operator", hint)
    assert started["msg"].endswith(
        f"; the cluster comes from the variables of Ascend Operator ({hint})"
    )
