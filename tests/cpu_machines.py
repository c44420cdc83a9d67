"""Machines as sysfs shows them, from what public documents and reports print of such servers.

The NUMA nodes of the NPUs of Atlas A2, and its table, are those that several users show; those
of A3 and A5 are not published, so they are told as unknown (-1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from ascend_supervisor.phrases import read_cpu_list, run_list
from ascend_supervisor.program.cpu_sysfs import read_affinity_table, topology_of
from ascend_supervisor.program.cpu_topology import Topology

A2_TABLE = """
\t   NPU0       NPU1       NPU2       NPU3       CPU Affinity
NPU0       X          HCCS       HCCS       HCCS       144-167
NPU1       HCCS       X          HCCS       HCCS       144-167
NPU2       HCCS       HCCS       X          HCCS       96-119
NPU3       HCCS       HCCS       HCCS       X          96-119

Legend:

  X    = Self
  HCCS = Connection traversing Huawei Cache Coherence System.
"""
A5_TABLE = """
\t   NPU0       NPU1       NIC0
NPU0       X          UB         PIX
NPU1       UB         X          PIX
"""


class Machine(Struct, frozen=True):
    """``npus`` has the NUMA node of each NPU, by its number; -1: the firmware names none.

    Two hyperthreads of a core are ``stride`` CPUs apart; 0: it has none. ``here`` are the NPUs of
    the container (all, if it is empty), ``ranks`` those of the local ranks, in their order.
    """

    nodes: Sequence[str]
    npus: Mapping[int, int]
    stride: int = 0
    offline: str = ""
    allowed: str = ""
    here: Sequence[int] = ()
    ranks: Sequence[int] = ()
    table: str = ""

    @property
    def online(self) -> frozenset[int]:
        return frozenset().union(*map(read_cpu_list, self.nodes)) - read_cpu_list(self.offline)

    @property
    def devices(self) -> Sequence[int]:
        return self.ranks or self.here or sorted(self.npus)

    def topology(self, root: Path) -> Topology:
        """As it is read, below ``root``."""
        self._write(root)
        allowed = read_cpu_list(self.allowed) if self.allowed else self.online
        found = topology_of(allowed, self.here or sorted(self.npus), root)
        return found.told_by(read_affinity_table(self.table)) if self.table else found

    def _write(self, root: Path) -> None:
        system = root / "devices/system"
        put(system / "cpu/online", run_list(self.online))
        for cpu in self.online:
            core = {cpu}
            if self.stride:
                core |= {cpu % self.stride, cpu % self.stride + self.stride} & self.online
            put(system / f"cpu/cpu{cpu}/topology/thread_siblings_list", run_list(core))
        for number, cpus in enumerate(self.nodes):
            online = read_cpu_list(cpus) & self.online
            put(system / f"node/node{number}/cpulist", run_list(online))
        put(root / "bus/pci/devices/0000:00:00.0/vendor", "0x8086")
        for number, node in self.npus.items():
            device = root / f"bus/pci/devices/0000:{0xFF - number:02x}:00.0"
            near = read_cpu_list(self.nodes[node]) & self.online if node >= 0 else self.online
            put(device / "vendor", "0x19e5")
            put(device / "dev_id", f"{number}")
            put(device / "numa_node", f"{node}")
            put(device / "local_cpulist", run_list(near))


def put(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{text}\n")


def nodes(count: int, each: int) -> list[str]:
    return [f"{at * each}-{at * each + each - 1}" for at in range(count)]


def hyperthreaded(count: int, each: int) -> list[str]:
    """``count`` nodes of ``each`` cores; the second hyperthreads come after all first ones."""
    total = count * each
    firsts = [(at * each, at * each + each - 1) for at in range(count)]
    return [f"{one}-{last},{one + total}-{last + total}" for one, last in firsts]


A2_NODES = dict(enumerate((6, 6, 4, 4, 0, 0, 2, 2)))
"""Of an Atlas 800T A2 with four Kunpeng 920 of 48 cores: 192 CPUs in 8 nodes."""
PAIRS = {number: number // 2 for number in range(8)}
"""Two NPUs at each of four nodes."""
UNKNOWN = dict.fromkeys(range(16), -1)
A2 = nodes(8, 24)
MACHINES: Mapping[str, Machine] = {
    "Kunpeng 920, 4 nodes": Machine(nodes(4, 32), PAIRS),
    "Kunpeng 920, 4 nodes, one NPU each": Machine(nodes(4, 24), dict(enumerate(range(4)))),
    "Kunpeng 920, 8 nodes": Machine(A2, dict(enumerate(range(8)))),
    "A2": Machine(A2, A2_NODES),
    "A2, four of its NPUs": Machine(A2, A2_NODES, here=(4, 5, 6, 7)),
    "A2, one NPU of a node, others have the machine, too": Machine(A2, A2_NODES, here=(3,)),
    "A2, one NPU of a node, a cpuset of its own": Machine(
        A2, A2_NODES, here=(3,), allowed="96-119"
    ),
    "A2, its NPUs reordered": Machine(A2, A2_NODES, ranks=(7, 0, 5, 2, 1, 6, 3, 4)),
    "A2, some of its NPUs, reordered": Machine(A2, A2_NODES, ranks=(6, 1)),
    "A2, a cpuset with holes": Machine(A2, A2_NODES, allowed="1-20,50-70,97,99-119,150-160"),
    "A2, a core for each NPU": Machine(A2, A2_NODES, allowed="0-1,48-49,96-97,144-145"),
    "A2, offline CPUs": Machine(A2, A2_NODES, offline="0-9,100,150-167"),
    "A2, known by npu-smi": Machine(A2, dict.fromkeys(range(4), -1), table=A2_TABLE),
    "A2 of which sysfs shows nothing": Machine(A2, {}, here=(0, 1, 2, 3), table=A2_TABLE),
    "A3": Machine(nodes(8, 80), UNKNOWN),
    "A3, half of its NPUs": Machine(nodes(8, 80), UNKNOWN, here=tuple(range(8))),
    "A3, a cpuset": Machine(nodes(8, 40), UNKNOWN, allowed="0-99"),
    "A5": Machine(nodes(4, 80), dict.fromkeys(range(8), -1), table=A5_TABLE),
    "x86 with hyperthreads": Machine(hyperthreaded(2, 32), {n: n // 4 for n in range(8)}, 64),
    "x86, half of the hyperthreads": Machine(
        hyperthreaded(2, 16), {n: n // 4 for n in range(8)}, 32, allowed="0-31"
    ),
    "x86, one node": Machine(hyperthreaded(1, 8), dict.fromkeys(range(4), 0), 8),
    "x86, fewer cores than NPUs": Machine(hyperthreaded(1, 4), dict.fromkeys(range(8), 0), 4),
    "a cpuset far from half of the NPUs": Machine(A2, A2_NODES, allowed="0-71"),
}
