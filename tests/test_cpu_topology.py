"""What is read of a machine: lists of CPUs, sysfs, the table of npu-smi, and who else binds."""

from __future__ import annotations

import pytest

from ascend_supervisor.phrases import read_cpu_list, run_list
from ascend_supervisor.program.cpu_binding import other_binder
from ascend_supervisor.program.cpu_sysfs import read_affinity_table, topology_of
from ascend_supervisor.program.cpu_topology import Topology
from tests.cpu_machines import A2_TABLE, A5_TABLE, MACHINES, put


@pytest.mark.parametrize("text", ["", "0", "0-3", "0-3,8", "0,2,4-5,100-8191"])
def test_a_list_of_cpus_is_written_as_it_was_read(text):
    assert run_list(read_cpu_list(text)) == text


@pytest.mark.parametrize("text", ["a", "3-1", "0-", "-1", "0-99999", "8192", "0-3-5", "٣"])
def test_what_is_no_list_of_cpus_is_refused(text):
    with pytest.raises(ValueError, match=text):
        read_cpu_list(text)


def test_a_machine_without_sysfs_has_the_cpus_that_we_may_use(tmp_path):
    two = frozenset({0, 1})
    assert topology_of(two, (), tmp_path) == Topology(two, two)


def test_files_with_nonsense_are_as_if_they_were_missing(tmp_path):
    put(tmp_path / "devices/system/cpu/online", "all of them")
    for number, name in enumerate(("dev_id", "numa_node", "local_cpulist", "vendor")):
        device = tmp_path / f"bus/pci/devices/0000:0{number}:00.0"
        put(device / "vendor", "0x19e5")
        put(device / "dev_id", "3")
        put(device / name, "\x00nonsense")
    two = frozenset({0, 1})
    assert topology_of(two, (), tmp_path) == Topology(two, two, near={3: frozenset()})


def test_the_npus_of_a_machine_are_known_by_the_numbers_that_their_driver_gives(tmp_path):
    topology = MACHINES["A2"].topology(tmp_path)
    assert run_list(topology.near[0]) == "144-167"
    assert run_list(topology.near[7]) == "48-71"
    assert topology.near.keys() == {*range(8)}


def test_a_device_without_a_node_is_near_nothing_on_a_machine_with_several(tmp_path):
    assert not any(MACHINES["A3"].topology(tmp_path).near.values())


def test_the_table_of_npu_smi_has_the_cpus_in_its_last_column():
    near = {number: run_list(cpus) for number, cpus in read_affinity_table(A2_TABLE).items()}
    assert near == {0: "144-167", 1: "144-167", 2: "96-119", 3: "96-119"}
    assert read_affinity_table(A2_TABLE.replace("144-167", "NA").replace("96-119", "0,2")) == {
        2: frozenset({0, 2}),
        3: frozenset({0, 2}),
    }


@pytest.mark.parametrize("text", ["", "Error: no permission", A5_TABLE])
def test_a_table_without_that_column_says_nothing(text):
    assert read_affinity_table(text) == {}


@pytest.mark.parametrize(
    ("words", "environ", "who"),
    [
        ("python train.py", {"CPU_AFFINITY_CONF": "1"}, "torch_npu"),
        ("python train.py", {"CPU_AFFINITY_CONF": "mode:2,npu0:0-1"}, "torch_npu"),
        ("msrun --bind_core=True train.py", {}, "--bind_core"),
        ("msrun --bind_core {} train.py", {}, "--bind_core"),
        ("torchrun --numa-binding=node train.py", {}, "--numa-binding"),
        ("torchrun --numa_binding exclusive train.py", {}, "--numa_binding"),
        ("taskset -c 0-3 python train.py", {}, "taskset"),
        ("/usr/bin/numactl --membind=0 python train.py", {}, "numactl"),
    ],
)
def test_who_binds_the_ranks_already_is_named(words, environ, who):
    assert who in (other_binder(words.split(), environ) or "")


def test_a_wrapper_in_the_words_for_a_shell_is_found():
    assert other_binder(["bash", "-c", "cd /code && taskset -c 0 python train.py"], {})


@pytest.mark.parametrize(
    ("words", "environ"),
    [
        ("python train.py --bind taskset.yaml", {}),
        ("python train.py", {"CPU_AFFINITY_CONF": "0"}),
        ("python train.py", {"CPU_AFFINITY_CONF": "mode:0,npu0:0-1"}),
        ("msrun --bind_core=False train.py", {}),
        ("msrun --bind_core False train.py", {}),
    ],
)
def test_who_binds_nothing_is_not_named(words, environ):
    assert other_binder(words.split(), environ) is None
