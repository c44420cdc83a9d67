"""What is started in each pod of Kubeflow's PyTorchJob (v1) and TrainJob (v2)."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.pods import EVERY_POD, for_hccl, for_torch, kubeflow_v1, pytorch, trainer_v2

IN_EVERY_POD = pytest.mark.parametrize(("cards", "pods", "node"), EVERY_POD)
KUBEFLOW = pytest.mark.parametrize("kubeflow", [kubeflow_v1, trainer_v2])


@KUBEFLOW
@IN_EVERY_POD
def test_a_pod_of_kubeflow_starts_a_rank_for_each_npu(check, kubeflow, cards, pods, node):
    pod = kubeflow(cards, pods, node)
    plan = check.plan(pod)
    assert plan.shape == (cards * pods, pods)
    assert plan.ranks == list(range(node * cards, (node + 1) * cards))
    for local_rank, process in enumerate(plan.processes):
        wanted = {
            **for_torch(cards, pods, node, local_rank),
            **for_hccl(cards, pods, node, local_rank),
            **{name: value for name, value in pod.items() if name.startswith("PET_")},
            "MASTER_ADDR": pod["PET_MASTER_ADDR"],
            "MASTER_PORT": pod["PET_MASTER_PORT"],
        }
        assert process.has(*wanted) == wanted


@KUBEFLOW
@IN_EVERY_POD
def test_torchrun_starts_the_ranks_of_a_pod_of_kubeflow(check, kubeflow, cards, pods, node):
    pod = kubeflow(cards, pods, node)
    (torchrun,) = check.plan(pod, "--method", "torchrun").processes
    assert torchrun.options["nnodes"] == str(pods)
    assert torchrun.options["nproc_per_node"] == str(cards)
    if pods > 1:
        assert torchrun.options["node_rank"] == str(node)
        assert torchrun.options["master_addr"] == pod["PET_MASTER_ADDR"]
        assert torchrun.options["master_port"] == pod["PET_MASTER_PORT"]


TWO_NPUS = """
cd "$1"
touch null davinci0 davinci1 davinci_manager
mount --bind /dev/null null
mount --rbind . /dev
shift
exec "$@"
"""


@pytest.mark.parametrize("told", [None, "auto"])
def test_the_npus_of_a_pod_are_counted_where_kubeflow_does_not_say_how_many(tmp_path, told):
    if os.geteuid():
        pytest.skip("a /dev of our own needs root")
    mount = ("unshare", "--mount", "sh", "-e", "-c", TWO_NPUS, "sh", str(tmp_path))
    program = (sys.executable, "-m", "ascend_supervisor", "--check", "--log-dir", str(tmp_path))
    answer = subprocess.run(
        [*mount, *program, "--", sys.executable, "-c", "pass"],
        env={**kubeflow_v1(told, 3, 1), "PATH": os.environ["PATH"]},
        check=True,
        capture_output=True,
        timeout=60,
    )
    processes = json.loads(answer.stdout)["processes"]
    assert [process["rank"] for process in processes] == [2, 3]
    assert {process["environment"]["WORLD_SIZE"] for process in processes} == {"6"}


def test_the_variables_of_the_operator_win_over_those_of_kubeflow(check):
    plan = check.plan({**trainer_v2(8, 3, 2), **pytorch(2, 2, 1)})
    assert plan.shape == (4, 2)
    assert plan.ranks == [2, 3]
