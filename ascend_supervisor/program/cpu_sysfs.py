"""Reads the topology of a machine from sysfs, or from a table of npu-smi.

What cannot be read is unknown.

The driver of the NPUs gives each PCI device a file ``dev_id``: the number of its file in /dev.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ascend_supervisor.phrases import read_cpu_list
from ascend_supervisor.program.cpu_topology import CpuSet, Topology

SYS = Path("/sys")
HUAWEI = "0x19e5"
_NODE = re.compile(r"node([0-9]+)", re.ASCII)


def topology_of(allowed: CpuSet, npus: Sequence[int], root: Path = SYS) -> Topology:
    """That of the machine whose sysfs is at ``root``; ``allowed`` are the CPUs that we may use."""
    system = root / "devices/system"
    online = _cpus(system / "cpu/online") or allowed
    usable = allowed & online
    siblings = {
        cpu: _cpus(system / f"cpu/cpu{cpu}/topology/thread_siblings_list") for cpu in usable
    }
    cores = {cpu: together for cpu, together in siblings.items() if cpu in together}
    nodes = {
        int(found[1]): _cpus(path / "cpulist")
        for path in sorted((system / "node").glob("node*"))
        if (found := _NODE.fullmatch(path.name))
    }
    near = {}
    for device in sorted((root / "bus/pci/devices").glob("*")):
        number = _number(device / "dev_id")
        if number is not None and _text(device / "vendor") == HUAWEI:
            near[number] = _near(device, len(nodes))
    return Topology(usable, online, cores, nodes, near, tuple(npus))


def _near(device: Path, nodes: int) -> CpuSet:
    """Where the firmware names no node (-1), the kernel lists all CPUs, which says nothing."""
    node = _number(device / "numa_node")
    is_known = node is not None and node >= 0
    return _cpus(device / "local_cpulist") if is_known or nodes == 1 else frozenset()


def _cpus(file: Path) -> CpuSet:
    with suppress(ValueError):
        return read_cpu_list(_text(file))
    return frozenset()


def _number(file: Path) -> int | None:
    with suppress(ValueError):
        return int(_text(file), 0)
    return None


def _text(file: Path) -> str:
    with suppress(OSError):
        return file.read_text(errors="replace").strip().lower()
    return ""


COMMAND = ("npu-smi", "info", "-t", "topo")
_COLUMN = "CPU Affinity"
"""Missing for Atlas A5, whose table is about links between NPUs only."""
_ROW = re.compile(r"NPU([0-9]{1,3})\s.*\s(\S+)", re.ASCII)


def read_affinity_table(text: str) -> dict[int, CpuSet]:
    """By the number of the NPU; empty if the table does not tell it."""
    lines = [line.strip() for line in text.splitlines()]
    begins = next((at for at, line in enumerate(lines) if line.endswith(_COLUMN)), len(lines))
    near: dict[int, CpuSet] = {}
    for line in lines[begins + 1 :]:
        if found := _ROW.fullmatch(line):
            with suppress(ValueError):  # NA
                near[int(found[1])] = read_cpu_list(found[2])
    return near
