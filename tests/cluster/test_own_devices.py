"""What a server publishes of its devices, from files as they are on a machine with NPUs."""

from __future__ import annotations

from pathlib import Path

import pytest

from ascend_supervisor.cluster.made_table import ServerDevice
from ascend_supervisor.cluster.own_devices import Machine, own_devices
from ascend_supervisor.errors import Refusal, SettingsRefused, TableRefused

HCCN = """
# written by hccn_tool
address_0=192.168.0.1
netmask_0=255.255.255.0
address_1 = 192.168.0.2
IPv6address_1=fe80::1
address_10=192.168.0.11
"""
NPUS = ("/dev/davinci0", "/dev/davinci1", "/dev/davinci10")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Three NPUs of Atlas A2, and a network card."""
    made = Machine(tmp_path / "hccn.conf", tmp_path / "pci")
    made.hccn.write_text(HCCN)
    made.pci.mkdir()
    plug(made, "c1", "0x19e5", "0x120000", "0xd802")
    plug(made, "c2", "0x19e5", "0x020000", "0x1822")
    plug(made, "c3", "0x8086", "0x120000", "0x1234")
    return made


def plug(machine: Machine, slot: str, vendor: str, kind: str, device: str) -> None:
    (machine.pci / slot).mkdir(exist_ok=True)
    for name, word in (("vendor", vendor), ("class", kind), ("device", device)):
        (machine.pci / slot / name).write_text(f"{word}\n")


def test_each_npu_has_the_address_that_hccn_conf_gives(machine):
    assert own_devices(NPUS, None, machine) == (
        ServerDevice(0, "192.168.0.1"),
        ServerDevice(1, "192.168.0.2"),
        ServerDevice(10, "192.168.0.11"),
    )


def test_a_container_publishes_the_npus_that_it_has(machine):
    assert own_devices(("/dev/davinci10",), 0, machine) == (ServerDevice(10, "192.168.0.11"),)


def test_a_number_takes_the_first_npus(machine):
    assert [one.device_id for one in own_devices(NPUS, 2, machine)] == [0, 1]
    with pytest.raises(SettingsRefused, match="--standalone 4: this machine has 3 NPUs"):
        own_devices(NPUS, 4, machine)


def test_without_npus_the_devices_have_no_addresses(machine):
    assert own_devices((), 2, machine) == (ServerDevice(0), ServerDevice(1))
    assert own_devices((), 0, machine) == (ServerDevice(0),)
    with pytest.raises(SettingsRefused, match=r"no NPU is here .* --standalone N"):
        own_devices((), None, machine)


def test_an_npu_without_an_address_is_refused(machine):
    with pytest.raises(TableRefused, match=r"expected the line address_3=IP of device 3, found"):
        own_devices(("/dev/davinci3",), None, machine)
    machine.hccn.unlink()
    with pytest.raises(TableRefused, match="No such file or directory; mount it from the host"):
        own_devices(NPUS, None, machine)


@pytest.mark.parametrize(
    ("chip", "name"),
    [
        ("0xd803", "Atlas A3"),
        ("0xd500", "Ascend 310P"),
        ("0xd806", "an NPU with the PCI id 0xd806"),
    ],
)
def test_chips_whose_hccl_reads_another_format_are_refused_by_name(machine, chip, name):
    plug(machine, "c4", "0x19e5", "0x120000", chip)
    with pytest.raises(TableRefused, match=f"found {name}; let the cluster write the rank table"):
        own_devices(NPUS, None, machine)


def test_a_machine_that_does_not_show_pci_is_taken_at_its_word(machine, tmp_path):
    hidden = Machine(machine.hccn, tmp_path / "nowhere")
    assert len(own_devices(NPUS, None, hidden)) == len(NPUS)


def test_a_file_that_never_ends_is_refused(machine):
    with pytest.raises(Refusal, match="not a regular file"):
        own_devices(NPUS, None, Machine(Path("/dev/zero"), machine.pci))
