"""The commands of the pages that a container starts, as real jobs."""

from __future__ import annotations

import shlex

import pytest

from tests.cluster.test_kubeflow import V2
from tests.cluster.test_operator import PYTORCH
from tests.readme.commands import block, image_words, portable_pod, volcano_job
from tests.readme.image import PROGRAMS, beside
from tests.running import DEADLINE_SECONDS, Running
from tests.test_manifests import container, in_its_pod, pods

CODE = "home/ma-user/modelarts/user-job-dir/code"
RANKS = range(4)
"""Those of the rank table."""
FAILS_ONCE = """\
import os
print("I am", os.environ["RANK"])
raise SystemExit(os.environ["TORCHELASTIC_RESTART_COUNT"] == "0")
"""
SCRIPT = 'echo "$PWD $* ${RANK-unset}"\n'
STAYS = "import time\nprint('up', flush=True)\ntime.sleep(600)\n"


def said(job: Running) -> list[str]:
    return [event["msg"] for event in job.all("output")]


def with_portable_directory() -> list[str]:
    only = container(portable_pod())
    return [*only["command"], *only["args"]]


def boot_command() -> list[str]:
    return shlex.split(block("python -m ascend_supervisor --restarts 3 "))


def volcano() -> list[str]:
    only = container(pods(volcano_job())[0])
    return [*only["command"], *only["args"]]


@pytest.mark.parametrize("words", [image_words, with_portable_directory, boot_command, volcano])
def test_a_container_restarts_its_ranks(image, with_table, words):
    image.with_file(f"{CODE}/train.py", FAILS_ONCE)
    job = image.runs(words(), with_table)
    assert job.end() == 0, job.stderr
    assert job.wait_for("supervisor.started")["restarts"] == 3
    assert [job.said(rank, 1) for rank in RANKS] == [[f"I am {rank}"] for rank in RANKS]


def test_the_init_container_copies_the_portable_directory(image):
    image.with_programs("portable")
    volume = image.root / "opt" / "ascend-supervisor"
    (volume / "bin").rename(image.root / "gone")
    (first,) = portable_pod()["initContainers"]
    with (image.root / "said").open("wb") as said:
        assert image.runs(first["command"], {}, stdout=said.fileno()).end() == 0
    assert {path.name for path in (volume / "bin").iterdir()} == set(PROGRAMS)


def test_the_probe_reports_a_pod_of_volcano(image, with_table):
    image.with_file(f"{CODE}/train.py", STAYS)
    pod = volcano_job()
    environ = {**in_its_pod(pod, image.root / "config"), "MA_VJ_NAME": ""}
    job = image.runs(volcano(), environ)
    for rank in RANKS:
        job.wait_for("output", rank=rank)
    probe = container(pods(pod)[0])["readinessProbe"]["exec"]["command"]
    asked = {**environ, "MA_MOUNT_PATH": str(image.root / "modelarts")}
    with beside(job, image.here(shlex.join(probe)), asked) as probed:
        assert probed.wait(DEADLINE_SECONDS) == 0, probed.communicate()
    assert job.wait_for("supervisor.started")["job_id"] == "trainjob"


def test_a_script_of_ones_own_is_put_behind_us(image, with_table):
    """It runs once, where we were started, with the same environment as before."""
    image.with_file("train_start.sh", SCRIPT)
    job = image.enters(
        image.here(block("ascend-supervisor --restarts 3 --method once ")), with_table
    )
    assert job.end() == 0
    assert said(job) == [f"{image.root} {image.root / CODE} unset"]


@pytest.mark.parametrize(
    ("variables", "cluster", "ranks"),
    [(PYTORCH, "operator", [2, 3]), (V2, "kubeflow", [8, 9, 10, 11])],
    ids=["operator", "kubeflow"],
)
def test_variables_take_the_place_of_a_rank_table(image, variables, cluster, ranks):
    image.with_file("code/train.py", "import os\nprint(os.environ['RANK'])\n")
    job = image.enters(image.here(block("python -m ascend_supervisor -- ")), variables)
    assert job.end() == 0
    assert job.wait_for("supervisor.started")["cluster"] == cluster
    assert sorted(map(int, said(job))) == ranks
