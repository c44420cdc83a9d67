"""The CPUs of a machine, and which of them are near which NPU; values."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

CpuSet = frozenset[int]


class Topology(Struct, frozen=True):
    """``usable`` are the CPUs that are online and that we may run on, ``online`` those of all.

    ``cores`` has the hyperthreads of the core that a CPU belongs to, by CPU; ``nodes`` the CPUs of
    each NUMA node. ``near`` has the CPUs near each NPU of the machine, by the number of its file in
    /dev; none where they are unknown. ``npus`` are the numbers of those that this container has.
    """

    usable: CpuSet
    online: CpuSet
    cores: Mapping[int, CpuSet] = field(default_factory=dict)
    nodes: Mapping[int, CpuSet] = field(default_factory=dict)
    near: Mapping[int, CpuSet] = field(default_factory=dict)
    npus: tuple[int, ...] = ()

    @property
    def is_ours(self) -> bool:
        """Whether others do not have all of our CPUs, too: a cpuset has cut them out for us."""
        return self.usable != self.online

    def told_by(self, table: Mapping[int, CpuSet]) -> Topology:
        """With what ``table`` has of the NPUs for which no near CPU is known."""
        known = {number: cpus for number, cpus in self.near.items() if cpus}
        return replace(self, near={**self.near, **table, **known})

    def node_of(self, cpu: int) -> int:
        """The NUMA node of a CPU; -1 if it is unknown."""
        return next((node for node, cpus in self.nodes.items() if cpu in cpus), -1)

    def cores_of(self, cpus: CpuSet) -> list[CpuSet]:
        """``cpus`` by core, those of a NUMA node side by side."""
        cores = {self.cores.get(cpu, frozenset({cpu})) & cpus | {cpu} for cpu in cpus}
        return sorted(cores, key=lambda core: (self.node_of(min(core)), min(core)))
