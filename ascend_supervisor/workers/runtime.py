"""What processes need of the world, whatever the generation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ascend_supervisor.events import Report
from ascend_supervisor.launchers.spec import ProcessSpec
from ascend_supervisor.output.mirror import Mirror
from ascend_supervisor.output.rank_logs import RankLogs
from ascend_supervisor.processes.children import Children
from ascend_supervisor.processes.guardian import Guardian
from ascend_supervisor.processes.ownership import Ownership
from ascend_supervisor.tasks.clock import Clock


@dataclass(frozen=True, slots=True)
class Runtime:
    """``mirror`` gives a process's way to stdout in a generation, if it has one."""

    children: Children
    ownership: Ownership
    logs: RankLogs
    mirror: Callable[[ProcessSpec, int], Mirror | None]
    environ: Mapping[str, str]
    oom_kills: Callable[[], int | None]
    clock: Clock
    report: Report
    guardian: Guardian = field(default_factory=Guardian)
