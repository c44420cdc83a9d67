"""The devices of this server as it publishes them with --servers; reads /etc and /sys."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from ascend_supervisor.cluster.made_table import ServerDevice
from ascend_supervisor.errors import SettingsRefused, TableRefused
from ascend_supervisor.files.regular_file import read_regular_file, reason_of
from ascend_supervisor.settings.readers import MOST_DEVICES
from ascend_supervisor.untrusted_text import plain

MOST_BYTES = 1024 * 1024
HUAWEI, ACCELERATOR = "0x19e5", "0x12"
"""PCI vendor, and the first byte of the class of a processing accelerator."""
WITH_TEMPLATE_1 = frozenset({"0xd801", "0xd802"})
"""PCI ids of Ascend 910 and of Atlas A2 (Ascend 910B), as MindCluster knows them."""
OTHERS = {"0xd803": "Atlas A3", "0xd500": "Ascend 310P", "0xd100": "Ascend 310"}
_ADDRESS = re.compile(r"address_([0-9]{1,3})\s*=\s*(\S+)", re.ASCII)


class Machine(Struct, frozen=True):
    """Where a machine says what it has.

    ``hccn`` is what hccn_tool writes: a line ``address_<device id>=<IP>`` for each device.
    """

    hccn: Path = Path("/etc/hccn.conf")
    pci: Path = Path("/sys/bus/pci/devices")


THIS_MACHINE = Machine()


def npu_files(devices: Path) -> tuple[str, ...]:
    """The NPUs' files in ``devices`` (/dev): davinci0, davinci1, ... but not davinci_manager."""
    found = devices.glob("davinci[0-9]*")
    return tuple(sorted(str(path) for path in found if path.name[7:].isdecimal()))


def own_devices(
    npus: Sequence[str], standalone: int | None, machine: Machine
) -> tuple[ServerDevice, ...]:
    """The devices that this server has a part in the job with, in the order of their ids.

    ``npus`` are their files in /dev. ``standalone``: so many, 0 for those present, else 1; on a
    machine without NPUs they have no addresses. Raises a Refusal.
    """
    if not npus:
        return _without_npus(standalone)
    _check_chips(machine.pci)
    ids = sorted(int(re.sub(r"\D", "", Path(npu).name)) for npu in npus)
    if standalone and standalone > len(ids):
        raise SettingsRefused(
            f"--standalone {standalone}: this machine has {len(ids)} NPUs; give --standalone "
            "without a number, or leave it out"
        )
    addresses = _addresses(machine.hccn)
    return tuple(_device(number, addresses, machine.hccn) for number in ids[: standalone or None])


def _without_npus(standalone: int | None) -> tuple[ServerDevice, ...]:
    if standalone is None:
        raise SettingsRefused(
            "--servers: no NPU is here (/dev/davinci0, ...), so this server has no part in the "
            "job; give the container its devices, or try the job without them by --standalone N"
        )
    if standalone > MOST_DEVICES:
        raise SettingsRefused(f"--standalone {standalone}: a server has at most {MOST_DEVICES}")
    return tuple(map(ServerDevice, range(standalone or 1)))


def _device(number: int, addresses: Mapping[int, str], file: Path) -> ServerDevice:
    if number not in addresses:
        raise TableRefused(
            f"{plain(str(file))}: expected the line address_{number}=IP of device {number}, found "
            f"{f'those of {sorted(addresses)}' if addresses else 'none of its kind'}; set it with "
            "hccn_tool, or write a rank table"
        )
    return ServerDevice(number, addresses[number])


def _addresses(file: Path) -> dict[int, str]:
    try:
        text = read_regular_file(file, MOST_BYTES).decode(errors="replace")
    except OSError as error:
        raise TableRefused(
            f"{plain(str(file))}: expected the addresses of the NPUs for a rank table, found that "
            f"it cannot be read: {reason_of(error)}; mount it from the host, or write a rank table"
        ) from error
    return {int(number): address for number, address in map(_line, text.splitlines()) if address}


def _line(line: str) -> tuple[int, str]:
    found = _ADDRESS.fullmatch(line.strip())
    return (int(found[1]), found[2]) if found else (0, "")


def _check_chips(pci: Path) -> None:
    """Raise TableRefused for chips whose HCCL reads another format; silent if PCI is not seen."""
    for chip in sorted(set(_chips(pci)) - WITH_TEMPLATE_1):
        raise TableRefused(
            f"--servers makes rank tables of version 1.0, which only Atlas A2 and Ascend 910 read, "
            f"found {OTHERS.get(chip, f'an NPU with the PCI id {plain(chip)}')}; let the cluster "
            "write the rank table, or write it by hand (--rank-table)"
        )


def _chips(pci: Path) -> Iterator[str]:
    with suppress(OSError):
        for device in pci.iterdir():
            kind = [_word(device / name) for name in ("vendor", "class", "device")]
            if kind[0] == HUAWEI and kind[1].startswith(ACCELERATOR):
                yield kind[2]


def _word(file: Path) -> str:
    with suppress(OSError):
        return file.read_text(errors="replace").strip().lower()
    return ""
