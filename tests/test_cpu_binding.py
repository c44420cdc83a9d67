"""--bind-cpus on a machine of eight NPUs: which process of a plan gets what, with each method."""

from __future__ import annotations

import os
from pathlib import PurePath
from shutil import which

import pytest

from ascend_supervisor.cluster.made_table import standalone_table
from ascend_supervisor.job_files import place_of
from ascend_supervisor.life import Plan, Start
from ascend_supervisor.phrases import run_list
from ascend_supervisor.processes.scheduling import cpus_of, given_to_children
from ascend_supervisor.program.cpu_binding import Binding, npu_of, topology_here
from ascend_supervisor.program.cpu_topology import Topology
from ascend_supervisor.program.planner import plan_of
from ascend_supervisor.settings.options import METHODS
from tests.cpu_machines import A2_TABLE, MACHINES, put
from tests.job_settings import launcher, of_command_line

A2 = ("144-155", "156-167", "96-107", "108-119", "0-11", "12-23", "48-59", "60-71")


@pytest.fixture
def a2(tmp_path) -> Topology:
    return MACHINES["A2"].topology(tmp_path)


def planned(topology: Topology, method: str = "ranktable", ranks: int = 8, **environ: str) -> Plan:
    if method == "mpirun" and which("mpirun") is None:
        pytest.skip("mpirun is not installed (Debian's package openmpi-bin)")
    found = standalone_table(ranks)
    start = Start(0, found, 0, found.table.entries[0], 0)
    place = place_of({}, "here", mounted_log_exists=False, here=PurePath("/"))
    read = of_command_line("--method", method, "--bind-cpus", "auto", "--", "train.py")
    plan = plan_of(launcher(read, environ), place, (), start)
    return Binding(read.bind_cpus, True, topology, environ).of(plan)  # noqa: FBT003


def told(plan: Plan) -> list[str]:
    return [run_list(spec.cpus or ()) for spec in plan.specs if spec.rank is not None]


def test_each_rank_is_near_its_npu(a2):
    assert told(planned(a2)) == [*A2]


def test_ranks_follow_the_order_of_the_visible_devices(a2):
    plan = planned(a2, ranks=3, ASCEND_RT_VISIBLE_DEVICES="7, 0,2")
    assert told(plan) == [A2[7], A2[0], A2[2]]


def test_threads_and_memory_fit_the_cpus(a2):
    specs = planned(a2).specs
    assert [spec.memory_node for spec in specs] == [6, 6, 4, 4, 0, 0, 2, 2]
    assert {spec.environ["OMP_NUM_THREADS"] for spec in specs} == {"12"}
    specs = planned(a2, OMP_NUM_THREADS="4").specs
    assert not any("OMP_NUM_THREADS" in spec.environ for spec in specs)


def test_shares_of_several_nodes_prefer_no_memory(tmp_path):
    plan = planned(MACHINES["A3, a cpuset"].topology(tmp_path), ranks=2)
    assert told(plan) == ["0-49", "50-99"]
    assert [spec.memory_node for spec in plan.specs] == [None, None]


@pytest.mark.parametrize("method", METHODS)
def test_ranks_have_their_own_cpus_or_what_starts_them_has_all_and_says_so(a2, method):
    plan = planned(a2, method)
    if sum(spec.rank is not None for spec in plan.specs) > 1:
        assert told(plan) == [*A2]
        assert all(spec.cpus is None for spec in plan.specs if spec.rank is None)
        assert not plan.remark
    else:
        (spec,) = plan.specs
        assert run_list(spec.cpus or ()) == "0-23,48-71,96-119,144-167"
        assert f"{spec.name} serves all NPUs here" in plan.remark
        assert "OMP_NUM_THREADS" not in spec.environ


def test_the_supervisor_keeps_to_nodes_without_npus(a2):
    binding = Binding("auto", False, a2, {})  # noqa: FBT003
    assert run_list(binding.rest(planned(a2).specs)) == "24-47,72-95,120-143,168-191"
    assert binding.rest([]) == a2.usable


@pytest.mark.parametrize(
    ("local_rank", "visible", "npus", "npu"),
    [
        (0, "", (4, 5, 6, 7), 4),
        (3, "", (4, 5, 6, 7), 7),
        (4, "", (4, 5, 6, 7), None),
        (0, "3,1", (4, 5, 6, 7), 7),
        (1, "3,1", (4, 5, 6, 7), 5),
        (2, "3,1", (4, 5, 6, 7), None),
        (2, "1", (4, 5, 6, 7), 5),
        (0, "9", (4, 5, 6, 7), None),
        (0, "all", (4, 5, 6, 7), None),
        (0, "-1", (4, 5, 6, 7), None),
        (0, "", (), None),
    ],
)
def test_the_npu_of_a_rank_is_the_one_that_its_device_number_means(local_rank, visible, npus, npu):
    assert npu_of(local_rank, visible, npus) == npu


def test_npu_smi_is_asked_where_sysfs_does_not_say_what_is_near_an_npu(tmp_path):
    program = tmp_path / "bin" / "npu-smi"
    put(program, f"#!/bin/sh\n[ \"$*\" = 'info -t topo' ] && cat <<END\n{A2_TABLE}\nEND")
    program.chmod(0o755)
    environ = {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    npus = ("/dev/davinci1", "/dev/davinci2")
    found = topology_here(npus, environ, tmp_path)
    assert found.npus == (1, 2)
    assert (run_list(found.near[1]), run_list(found.near[2])) == ("144-167", "96-119")
    assert topology_here(npus, {"PATH": "/nowhere"}, tmp_path).near == {}
    assert topology_here((), environ, tmp_path).near == {}
    MACHINES["Kunpeng 920, 8 nodes"].topology(tmp_path)
    assert run_list(topology_here(npus, environ, tmp_path).near[1]) == "24-47"


def test_cpus_that_the_kernel_refuses_change_nothing():
    before = cpus_of(0)
    with given_to_children(frozenset({8191})):
        assert cpus_of(0) == before
    assert cpus_of(0) == before
    assert cpus_of(2**22 + 1) is None
