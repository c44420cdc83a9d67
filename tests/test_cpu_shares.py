"""The CPUs of each rank on many machines: none twice, none beyond the cpuset, each near its NPU."""

from __future__ import annotations

import pytest

from ascend_supervisor.phrases import read_cpu_list, run_list
from ascend_supervisor.program.cpu_topology import Topology, shares
from tests.cpu_machines import A2, A2_NODES, MACHINES, Machine, hyperthreaded, nodes

FAR = "a cpuset far from half of the NPUs"


@pytest.fixture(scope="module", params=MACHINES.values(), ids=tuple(MACHINES))
def machine(request: pytest.FixtureRequest) -> Machine:
    found: Machine = request.param
    return found


@pytest.fixture(scope="module")
def topology(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Topology:
    """Read once for all tests of a machine: its sysfs has up to two thousand files."""
    return machine.topology(tmp_path_factory.mktemp("sysfs"))


def told(machine: Machine, root) -> list[str]:
    return [run_list(one) for one in shares(machine.devices, machine.topology(root))]


def test_no_cpu_is_in_two_shares_and_none_is_beyond_the_cpuset_or_offline(machine, topology):
    found = shares(machine.devices, topology)
    assert all(found)
    assert sum(map(len, found)) == len(frozenset().union(*found))
    allowed = read_cpu_list(machine.allowed) if machine.allowed else machine.online
    assert frozenset().union(*found) <= allowed & machine.online


def test_each_share_is_near_its_npu_where_that_has_cpus_here(machine, topology):
    for device, share in zip(machine.devices, shares(machine.devices, topology), strict=True):
        near = topology.near.get(device, frozenset()) & topology.usable
        assert share <= near or not near


def test_all_shares_of_a_node_are_of_the_same_size(machine, topology):
    sizes: dict[frozenset[int], set[int]] = {}
    for device, share in zip(machine.devices, shares(machine.devices, topology), strict=True):
        near = topology.near.get(device, frozenset()) & topology.usable
        sizes.setdefault(near, set()).add(len(topology.cores_of(share)))
    assert all(len(each) == 1 for each in sizes.values())


def test_no_core_is_divided_unless_there_are_fewer_cores_than_ranks(machine, topology):
    found = shares(machine.devices, topology)
    if len(topology.cores_of(topology.usable)) >= len(found):
        for share in found:
            for core in topology.cores_of(share):
                (one, *_) = core
                assert core == topology.cores.get(one, core) & topology.usable


def test_two_jobs_on_one_machine_do_not_get_the_same_cpus(machine, topology):
    if topology.is_ours or not topology.near or topology.near.keys() < {*machine.devices}:
        return
    found = [one for device in sorted(topology.near) for one in shares([device], topology)]
    assert sum(map(len, found)) == len(frozenset().union(*found))


def test_on_an_atlas_a2_two_npus_share_a_node(tmp_path):
    assert told(Machine(A2, A2_NODES), tmp_path) == [
        *("144-155", "156-167", "96-107", "108-119"),
        *("0-11", "12-23", "48-59", "60-71"),
    ]


def test_a_cpuset_of_its_own_is_not_shared_with_the_npus_of_others(tmp_path):
    alone = Machine(A2, A2_NODES, here=(3,), allowed="96-119")
    assert told(alone, tmp_path / "alone") == ["96-119"]
    assert told(Machine(A2, A2_NODES, here=(3,)), tmp_path / "shared") == ["108-119"]


def test_a_rank_whose_node_is_not_in_the_cpuset_gets_what_is_left(tmp_path):
    found = told(MACHINES[FAR], tmp_path)
    assert found[4:] == ["0-11", "12-23", "48-59", "60-71"]
    assert found[:4] == ["24-29", "30-35", "36-41", "42-47"]


def test_where_nothing_is_known_the_cpus_are_divided_node_by_node(tmp_path):
    assert told(MACHINES["A3"], tmp_path)[:3] == ["0-39", "40-79", "80-119"]
    assert told(MACHINES["A5"], tmp_path / "5")[:3] == ["0-39", "40-79", "80-119"]
    interleaved = Machine(["0,2,4,6", "1,3,5,7"], {0: -1, 1: -1})
    assert told(interleaved, tmp_path / "interleaved") == ["0,2,4,6", "1,3,5,7"]


def test_both_hyperthreads_of_a_core_go_to_one_rank(tmp_path):
    assert told(Machine(hyperthreaded(1, 4), {0: 0, 1: 0}, 4), tmp_path) == ["0-1,4-5", "2-3,6-7"]
    few = MACHINES["x86, fewer cores than NPUs"]
    assert told(few, tmp_path / "few") == ["0", "4", "1", "5", "2", "6", "3", "7"]


def test_what_cannot_be_divided_is_left(tmp_path):
    assert told(Machine(nodes(1, 7), {0: 0, 1: 0}), tmp_path) == ["0-2", "3-5"]


def test_with_fewer_cpus_than_ranks_nobody_gets_any():
    two = frozenset({0, 1})
    assert shares([0, 1, 2], Topology(two, two)) == (frozenset(),) * 3


def test_two_ranks_at_one_npu_have_cpus_of_their_own():
    four = frozenset(range(4))
    near = {0: frozenset({0, 1}), 1: frozenset({2, 3})}
    first, second = shares([0, 0], Topology(four, four, near=near))
    assert first
    assert second
    assert not first & second


def test_ranks_without_a_known_npu_get_equal_parts():
    four = frozenset(range(4))
    assert shares([None, None], Topology(four, four)) == (frozenset({0, 1}), frozenset({2, 3}))
