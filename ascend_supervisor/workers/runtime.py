"""The parts that processes run with, the same in every generation."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct, field

from ascend_supervisor.events import Report
from ascend_supervisor.output.rank_output import Outputs
from ascend_supervisor.processes.children import Children
from ascend_supervisor.processes.guardian_link import Guardian
from ascend_supervisor.processes.kernel import CgroupMemory
from ascend_supervisor.processes.ownership import Ownership
from ascend_supervisor.tasks.clock import Clock
from ascend_supervisor.workers.standbys import Standbys


class Runtime(Struct, frozen=True):
    children: Children
    ownership: Ownership
    outputs: Outputs
    environ: Mapping[str, str]
    memory: Callable[[], CgroupMemory | None]
    clock: Clock
    report: Report
    guardian: Guardian = field(default_factory=Guardian)
    standbys: Standbys | None = None
