"""A generation: what is agreed, planned and observed of it; values."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field

from ascend_supervisor.cluster.rank_table import Entry, FoundTable
from ascend_supervisor.launchers.process_spec import ProcessSpec


class Start(Struct, frozen=True):
    """What all servers of the job have agreed on; ``entry`` is ours, at position ``node_rank``.

    ``restarts_left`` is what the budget allows after this generation.
    """

    generation: int
    found: FoundTable
    node_rank: int
    entry: Entry
    restarts_left: int

    @property
    def local_ranks(self) -> tuple[int, ...]:
        return tuple(device.rank for device in self.entry.devices)

    @property
    def holds_all_ranks(self) -> bool:
        """Whether no other server takes part in the job."""
        return self.found.table.holds_all(self.entry)


class Plan(Struct, frozen=True):
    """A start, and the processes of this server.

    ``lacking`` is what the machine lacked during preparation: then nothing is started, and the
    generation ends with a fault.
    """

    start: Start
    specs: tuple[ProcessSpec, ...]
    lacking: str | None = None


Equip = Callable[[ProcessSpec], ProcessSpec]
"""What an option adds to every process that we start, whatever the launch method; pure.

Processes that a launcher starts get the variables as the launcher passes them on."""


class Activity(Struct):
    """How many ``bytes`` a process has written, the last at ``spoke_at`` (the clock's seconds).

    If it has written nothing, ``spoke_at`` is just before its start.
    """

    spoke_at: float
    bytes: int = 0

    def note(self, size: int, now: float) -> None:
        self.bytes += size
        self.spoke_at = now


class Living(Struct, frozen=True):
    """A process that was started.

    ``activity_of_workers`` belongs to a launcher's workers that write logs of their own, in the
    order of its ``worker_logs``.
    """

    spec: ProcessSpec
    pid: int
    activity: Activity
    activity_of_workers: tuple[Activity, ...] = ()


class Life(Struct):
    """A generation while it runs; ``processes`` grows as they are started."""

    plan: Plan
    processes: list[Living] = field(default_factory=list)

    @property
    def generation(self) -> int:
        return self.plan.start.generation
