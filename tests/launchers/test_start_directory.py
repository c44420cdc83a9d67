"""Where ranks start: in directories of their own, or where the supervisor was started."""

from __future__ import annotations

from pathlib import PurePath

import pytest

from ascend_supervisor.cluster.declared import Meeting
from ascend_supervisor.cluster.made_table import standalone
from ascend_supervisor.cluster.parsing import parse
from ascend_supervisor.cluster.platforms import meeting_of
from ascend_supervisor.cluster.rank_table import RankTable
from ascend_supervisor.launchers import Boot, Here, Launcher
from ascend_supervisor.launchers.mindspore import MindSporeLauncher
from ascend_supervisor.launchers.msrun import MsrunLauncher
from ascend_supervisor.launchers.ranktable import RankTableLauncher
from ascend_supervisor.launchers.torch_ddp import TorchDdpLauncher
from ascend_supervisor.launchers.torchrun import TorchrunLauncher
from ascend_supervisor.process_spec import ProcessSpec
from ascend_supervisor.program.premises import rank_dir_here
from ascend_supervisor.settings.readers import RankDir
from tests.launchers.test_ranktable import PLACE
from tests.rank_tables import TWELVE_PODS
from tests.rank_tables import table as example

LAUNCHERS = (
    RankTableLauncher,
    TorchDdpLauncher,
    MindSporeLauncher,
    TorchrunLauncher,
    MsrunLauncher,
)


def boot(rank_dir: RankDir, **environ: str) -> Boot:
    return Boot(("python", "train.py"), environ, 0, rank_dir=rank_dir)


def pair() -> RankTable:
    table = parse(standalone(2))
    assert isinstance(table, RankTable)
    return table


def plan(launcher: Launcher, table: RankTable, node_rank: int = 0) -> tuple[ProcessSpec, ...]:
    return launcher.plan(table, Here(node_rank, table.entries[node_rank], PLACE), 0)


def directories(rank_dir: RankDir) -> list[PurePath]:
    specs = plan(RankTableLauncher(boot(rank_dir)), example(TWELVE_PODS), node_rank=1)
    return [spec.cwd for spec in specs]


def test_each_device_has_a_directory_of_its_own():
    assert directories("device") == [PLACE.work_dir / f"device{index}" for index in range(8)]


def test_ranks_of_servers_that_share_a_work_directory_are_apart():
    assert directories("rank") == [PLACE.work_dir / f"rank{rank}" for rank in range(8, 16)]


def test_ranks_start_where_the_supervisor_was_started():
    assert directories("same") == [PLACE.started_in] * 8


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_with_one_directory_for_all_nothing_is_in_the_work_directory(launcher):
    for spec in plan(launcher(boot("same")), pair()):
        assert spec.cwd == PLACE.started_in
        assert not any(path.is_relative_to(PLACE.work_dir) for path in spec.directories)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_the_directory_of_cann_starts_in_that_of_the_process(launcher):
    for rank_dir in ("device", "rank", "same"):
        for spec in plan(launcher(boot(rank_dir, ASCEND_PROCESS_LOG_PATH="plog")), pair()):
            if spec.title != "the scheduler":
                assert spec.environ["ASCEND_PROCESS_LOG_PATH"] == "plog"
                assert spec.cwd / "plog" in spec.directories


def meeting(words: str) -> Meeting | None:
    return meeting_of(dict(word.split("=") for word in words.split()))


STORE = meeting("WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 RANK=0 MASTER_ADDR=a MASTER_PORT=1")
CHIEF = meeting(
    "CM_WORKER_SIZE=4 CM_LOCAL_WORKER=2 CM_RANK=0 CM_WORKER_IP=a CM_CHIEF_IP=a CM_CHIEF_PORT=1 "
    "CM_CHIEF_DEVICE=0"
)
SCHEDULER = meeting(
    "MS_ROLE=MS_WORKER MS_SCHED_HOST=a MS_SCHED_PORT=1 MS_WORKER_NUM=4 MS_LOCAL_WORKER=2 "
    "MS_NODE_RANK=0"
)


@pytest.mark.parametrize(
    ("source", "place", "expected"),
    [
        ("standalone", None, "same"),
        ("rank_table", None, "device"),
        ("rank_table", STORE, "device"),
        ("modelarts", None, "device"),
        ("operator", STORE, "same"),
        ("operator", CHIEF, "same"),
        ("operator", SCHEDULER, "device"),
        ("kubeflow", STORE, "same"),
    ],
)
def test_the_default_follows_the_cluster(source, place, expected):
    assert rank_dir_here(None, source, "ranktable", place, has_work_dir=False) == expected
    assert rank_dir_here(None, source, "ranktable", place, has_work_dir=True) == "device"
    assert rank_dir_here("rank", source, "ranktable", place, has_work_dir=False) == "rank"


@pytest.mark.parametrize("method", ["mindspore", "msrun"])
def test_mindspore_has_directories_of_its_own_for_graph_files(method):
    assert rank_dir_here(None, "kubeflow", method, STORE, has_work_dir=False) == "device"
