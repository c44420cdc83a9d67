"""What a process that serves the whole job runs with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from ascend_supervisor.events import Report
from ascend_supervisor.output.rank_logs import RankLogs
from ascend_supervisor.processes.children import Children
from ascend_supervisor.processes.guardian_link import Guardian
from ascend_supervisor.tasks.clock import Clock


class Machine(Struct, frozen=True):
    """What a process of the whole job runs with here; ``log`` and ``data`` are etcd's.

    ``find`` gives the path of a program, None if it is not installed.
    """

    children: Children
    guardian: Guardian
    logs: RankLogs
    log: Path
    data: Path
    find: Callable[[str], str | None]
    clock: Clock
    report: Report
