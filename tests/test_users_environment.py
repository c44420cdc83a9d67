"""What the user adds to the environment of processes, and what wins."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from ascend_supervisor.cluster.rank_table import Entry, FoundTable
from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.launchers import Boot, Launcher
from ascend_supervisor.launchers.mindspore import MindSporeLauncher
from ascend_supervisor.launchers.ranktable import RankTableLauncher
from ascend_supervisor.launchers.torchrun import TorchrunLauncher
from ascend_supervisor.life import Start
from ascend_supervisor.process_spec import ProcessSpec
from ascend_supervisor.program.planner import plan_of, rank_variables, sourced_variables
from ascend_supervisor.settings.user_variables import NAMES, read_rank_variables
from tests.launchers.test_ranktable import PLACE
from tests.rank_tables import ONE_CARD, TWELVE_PODS, table

ALL = " ".join(f"{{{name}}}" for name in NAMES)
BOOT = Boot(("python", "train.py"), {}, 0)


def plan(launcher: Launcher, *said: str) -> tuple[ProcessSpec, ...]:
    """On the second of twelve servers, in generation 3."""
    found = table(TWELVE_PODS)
    start = Start(3, FoundTable(Path("/t"), found, ""), 1, found.entries[1], 0)
    variables = read_rank_variables(list(said))
    return plan_of(launcher, PLACE, [rank_variables(variables, PLACE, start)], start).specs


def test_each_rank_has_its_own_values():
    specs = plan(RankTableLauncher(BOOT), f"X={ALL}")
    assert [spec.environ["X"] for spec in specs] == [
        f"{8 + index} {index} {index} 1 96 {PLACE.work_dir}/device{index} {PLACE.log_dir} 3"
        for index in range(8)
    ]


def test_a_device_has_the_id_of_the_table_and_not_the_local_one():
    """On a bare host the devices 4 to 7 are those, whatever ASCEND_DEVICE_ID counts."""
    found = table(ONE_CARD)
    start = Start(0, FoundTable(Path("/t"), found, ""), 0, found.entries[0], 0)
    equips = [rank_variables(read_rank_variables(["X={device_id}"]), PLACE, start)]
    for launcher in (RankTableLauncher(BOOT), MindSporeLauncher(BOOT)):
        *_, rank = plan_of(launcher, PLACE, equips, start).specs
        assert (rank.environ["X"], rank.environ["DEVICE_ID"]) == ("4", "0")


def test_a_rank_without_a_device_has_no_id_to_give():
    found = replace(table(ONE_CARD), world_size=0, entries=(Entry(()),))
    start = Start(0, FoundTable(Path("/t"), found, ""), 0, found.entries[0], 0)
    equips = [rank_variables(read_rank_variables(["X={device_id}"]), PLACE, start)]
    with pytest.raises(SettingsRefused, match="no device of this rank is known"):
        plan_of(RankTableLauncher(BOOT), PLACE, equips, start)


def test_the_user_wins_over_the_launcher():
    (spec, *_) = plan(RankTableLauncher(BOOT), "MASTER_PORT=7", "HCCL_CONNECT_TIMEOUT=60")
    assert (spec.environ["MASTER_PORT"], spec.environ["HCCL_CONNECT_TIMEOUT"]) == ("7", "60")


@pytest.mark.parametrize("launcher", [RankTableLauncher, TorchrunLauncher, MindSporeLauncher])
def test_a_sourced_file_changes_what_is_inherited(launcher):
    found = table(TWELVE_PODS)
    start = Start(0, FoundTable(Path("/t"), found, ""), 0, found.entries[0], 0)
    changes = {"ASCEND_HOME_PATH": "/cann", "GONE": None, "JOB_ID": "another"}
    for spec in plan_of(launcher(BOOT), PLACE, [sourced_variables(changes)], start).specs:
        assert spec.environ["ASCEND_HOME_PATH"] == "/cann"
        assert spec.environ["GONE"] is None
        assert spec.environ["JOB_ID"] == PLACE.job_id


def test_of_a_name_that_stands_twice_the_last_counts():
    (spec, *_) = plan(RankTableLauncher(BOOT), "X=1", "X=2")
    assert spec.environ["X"] == "2"


def test_a_directory_for_cann_is_made():
    (spec, *_) = plan(RankTableLauncher(BOOT), "ASCEND_PROCESS_LOG_PATH={log_dir}/plog/{rank}")
    assert spec.environ["ASCEND_PROCESS_LOG_PATH"] == f"{PLACE.log_dir}/plog/8"
    assert PLACE.log_dir / "plog" / "8" in spec.directories


def test_a_launcher_gets_what_all_its_ranks_share():
    (spec,) = plan(TorchrunLauncher(BOOT), "X={node_rank} {rank_dir}")
    assert spec.environ["X"] == f"1 {PLACE.work_dir}"


def test_a_process_beside_the_ranks_gets_only_what_names_no_rank():
    found = table(TWELVE_PODS)
    start = Start(0, FoundTable(Path("/t"), found, ""), 0, found.entries[0], 0)
    equip = rank_variables(read_rank_variables(["A={rank}", "B={node_rank}"]), PLACE, start)
    scheduler, worker, *_ = plan_of(MindSporeLauncher(BOOT), PLACE, [equip], start).specs
    assert scheduler.title == "the scheduler"
    assert ("A" in scheduler.environ, scheduler.environ["B"]) == (False, "0")
    assert (worker.environ["A"], worker.environ["B"]) == ("0", "0")
