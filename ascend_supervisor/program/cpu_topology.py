"""The CPUs of a machine, which of them are near which NPU, and which each rank gets; pure.

A rank gets CPUs near its NPU, whole cores, and none that another one has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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


NONE: CpuSet = frozenset()


def shares(devices: Sequence[int | None], topology: Topology) -> tuple[CpuSet, ...]:
    """For each rank here, by the number of its NPU (None: unknown) in the order of local ranks.

    All are empty if there are fewer CPUs than ranks. NPUs at one NUMA node share its CPUs in equal
    parts, also with those of others, unless our CPUs are ours alone. What is not near any NPU is
    shared by those for which no near CPU is known, or left.
    """
    asking = [
        at - len(devices) if device is None or device in devices[:at] else device
        for at, device in enumerate(devices)
    ]
    others = () if topology.is_ours else topology.near.keys()
    found, taken = _near_each(sorted({*asking, *others}), topology)
    far = [one for one, share in found.items() if not share]
    found.update(zip(far, split(topology.usable - taken, len(far), topology), strict=True))
    own = tuple(found[one] for one in asking)
    return own if all(own) else tuple(split(topology.usable, len(own), topology))


def _near_each(claiming: Sequence[int], topology: Topology) -> tuple[dict[int, CpuSet], CpuSet]:
    """The part of each NPU in the CPUs near it, and all CPUs of these parts."""
    groups: dict[CpuSet, list[int]] = {}
    for one in claiming:
        groups.setdefault(topology.near.get(one, NONE) & topology.usable, []).append(one)
    found: dict[int, CpuSet] = {}
    taken = NONE
    for cpus in sorted(groups, key=lambda one: (len(one), sorted(one))):
        parts = split(cpus - taken, len(groups[cpus]), topology)
        found.update(zip(groups[cpus], parts, strict=True))
        taken = taken.union(*parts)
    return found, taken


def split(cpus: CpuSet, number: int, topology: Topology) -> list[CpuSet]:
    """``number`` equal parts, of whole cores if there are enough; empty ones if CPUs are too few.

    What cannot be divided is in no part.
    """
    units = topology.cores_of(cpus)
    if len(units) < number:
        units = [frozenset({cpu}) for core in units for cpu in sorted(core)]
    each = len(units) // number if number else 0
    return [NONE.union(*units[at * each : (at + 1) * each]) for at in range(number)]
