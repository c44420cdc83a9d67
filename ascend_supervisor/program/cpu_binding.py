"""--bind-cpus and --bind-memory: which CPUs the processes of a plan get, or why they get none."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from shutil import which

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.life import Plan
from ascend_supervisor.phrases import run_list
from ascend_supervisor.process_spec import ProcessSpec, changed
from ascend_supervisor.processes.program_output import output_of
from ascend_supervisor.program.cpu_sysfs import COMMAND, SYS, read_affinity_table, topology_of
from ascend_supervisor.program.cpu_topology import NONE, CpuSet, Topology, shares
from ascend_supervisor.settings.readers import CpuBinding

VISIBLE = "ASCEND_RT_VISIBLE_DEVICES"
THREADS = "OMP_NUM_THREADS"
TABLE_SECONDS, TABLE_BYTES = 5.0, 256 * 1024
"""How long npu-smi may take; it is asked only if sysfs does not tell what is near an NPU."""


def topology_here(npus: Sequence[str], environ: Mapping[str, str], root: Path = SYS) -> Topology:
    """That of this machine; ``npus`` are the files of those that we have in /dev.

    npu-smi is looked for in the PATH of ``environ``, and gets that. To be called before anybody
    else waits for children, and before we bind ourselves.
    """
    allowed = frozenset(os.sched_getaffinity(0))
    numbers = sorted(int("".join(filter(str.isdecimal, npu.rpartition("/")[2]))) for npu in npus)
    topology = topology_of(allowed, numbers, root)
    program = which(COMMAND[0], path=environ.get("PATH", os.defpath))
    if all(map(topology.near.get, numbers)) or program is None:
        return topology
    told = output_of((program, *COMMAND[1:]), TABLE_SECONDS, TABLE_BYTES, environ)
    return topology.told_by(read_affinity_table(told.text.decode(errors="replace")))


class Binding(Struct, frozen=True):
    """``wish`` is --bind-cpus; ``inherited``: the environment that the processes inherit."""

    wish: CpuBinding
    is_for_memory: bool
    topology: Topology
    inherited: Mapping[str, str]

    def of(self, plan: Plan) -> Plan:
        """The plan with CPUs, and with a remark on what is not as one expects.

        Raises SettingsRefused if a map does not fit.
        """
        specs = plan.specs
        for spec in specs:
            if other := other_binder(spec.argv, self._environ(spec)):
                return replace(plan, remark=f"it does nothing here, because {other}")
        ranks = [spec for spec in specs if spec.rank is not None]
        count = len(plan.start.entry.devices) or 1
        each_has_one = len(ranks) == count
        found = self._shares(plan, ranks if each_has_one else [specs[-1]] * count)
        if not all(found):
            few = f"{count} ranks cannot share {len(self.topology.usable)} CPUs"
            return replace(plan, remark=f"it does nothing here: {few}")
        if not each_has_one:
            return _of_all(plan, NONE.union(*found))
        shared = {id(spec): cpus for spec, cpus in zip(ranks, found, strict=True)}
        bound = tuple(
            self._bound(spec, shared[id(spec)]) if id(spec) in shared else spec for spec in specs
        )
        return replace(plan, specs=bound)

    def rest(self, specs: Iterable[ProcessSpec]) -> CpuSet:
        """The CPUs for ourselves: what is left, or all if nothing is."""
        taken = NONE.union(*(spec.cpus or NONE for spec in specs))
        return self.topology.usable - taken or self.topology.usable

    def _environ(self, spec: ProcessSpec) -> dict[str, str]:
        return changed(self.inherited, spec.environ)

    def _shares(self, plan: Plan, specs: Sequence[ProcessSpec]) -> Sequence[CpuSet]:
        """Those of each local rank; ``specs`` are what runs them."""
        if isinstance(self.wish, tuple):
            return self._mapped(self.wish, len(specs))
        known = self.topology.npus or [device.device_id for device in plan.start.entry.devices]
        visible = [self._environ(spec).get(VISIBLE, "") for spec in specs]
        return shares([npu_of(at, one, known) for at, one in enumerate(visible)], self.topology)

    def _mapped(self, wish: tuple[CpuSet, ...], count: int) -> Sequence[CpuSet]:
        if len(wish) < count:
            raise SettingsRefused(
                f"--bind-cpus: expected CPUs for each of the {count} ranks here, found those of "
                f"{len(wish)}; write them with / between, in the order of local ranks"
            )
        if beyond := NONE.union(*wish) - self.topology.usable:
            raise SettingsRefused(
                f"--bind-cpus: expected CPUs that are online and in our cpuset "
                f"({run_list(self.topology.usable)}), found {run_list(beyond)} besides"
            )
        return wish[:count]

    def _bound(self, spec: ProcessSpec, cpus: CpuSet) -> ProcessSpec:
        environ = dict(spec.environ)
        if THREADS not in self._environ(spec):
            environ[THREADS] = str(len(self.topology.cores_of(cpus)))
        nodes = {self.topology.node_of(cpu) for cpu in cpus} - {-1}
        node = min(nodes) if self.is_for_memory and len(nodes) == 1 else None
        return replace(spec, cpus=cpus, memory_node=node, environ=environ)


def _of_all(plan: Plan, cpus: CpuSet) -> Plan:
    """One process serves all NPUs: only what it starts could tell their CPUs apart."""
    bound = tuple(replace(spec, cpus=cpus) for spec in plan.specs)
    remark = (
        f"{bound[-1].name} serves all NPUs here, so it and what it starts run on their CPUs "
        f"together ({run_list(cpus)}); a method that starts a process for each NPU separates them"
    )
    return replace(plan, specs=bound, remark=remark)


def npu_of(local_rank: int, visible: str, npus: Sequence[int]) -> int | None:
    """The number of the NPU in /dev that a rank uses as its device ``local_rank``.

    Devices are numbered from 0 in the order of ``npus``, which this container has;
    ASCEND_RT_VISIBLE_DEVICES (``visible``) chooses from these, and orders them. None: unknown.
    """
    index = local_rank
    if visible.strip():
        words = [word.strip() for word in visible.split(",")]
        word = words[0] if len(words) == 1 else dict(enumerate(words)).get(local_rank, "")
        if not (word.isascii() and word.isdecimal()):
            return None
        index = int(word)
    return npus[index] if index < len(npus) else None


TORCH_NPU = "CPU_AFFINITY_CONF"
_OFF = frozenset({"", "0", "mode:0", "false", "none"})
_OPTION = re.compile(r"--(bind[-_]core|numa[-_]binding)(?:=(.*))?", re.DOTALL)
"""msrun's, whose value may be a word, and torchrun's."""
_PROGRAM = re.compile(r"(?:^|[\s;&|(/'\"])(taskset|numactl)(?=\s|$)")


def other_binder(argv: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """Half a sentence: what binds the ranks already; None if nothing does, as far as we see."""
    mode = environ.get(TORCH_NPU, "").partition(",")[0].strip().lower()
    if mode not in _OFF:
        return f"{TORCH_NPU} is set, and torch_npu binds by it"
    for number, word in enumerate(argv):
        if found := _OPTION.fullmatch(word):
            following = argv[number + 1] if number + 1 < len(argv) else ""
            value = following if found[2] is None else found[2]
            if value.strip().lower() not in _OFF:
                return f"the launcher binds by {word.partition('=')[0]}"
        if program := _PROGRAM.search(word):
            return f"the command calls {program[1]}"
    return None
