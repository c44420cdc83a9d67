"""A generation from its plan to its processes: what is agreed, planned, and seen of it; values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ascend_supervisor.cluster.rank_table import Entry, FoundTable
from ascend_supervisor.errors import Unavailable
from ascend_supervisor.launchers.spec import ProcessSpec


@dataclass(frozen=True, slots=True)
class Start:
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
        """Whether no other server has a part in the job."""
        return self.found.table.holds_all(self.entry)


@dataclass(frozen=True, slots=True)
class Plan:
    """A start, and what is started then on this server.

    ``lacking`` is what the machine lacked when it was made ready: then nothing is started, and the
    generation ends as by any fault.
    """

    start: Start
    specs: tuple[ProcessSpec, ...]
    lacking: Unavailable | None = None


Equip = Callable[[ProcessSpec], ProcessSpec]
"""What an option adds to every process that we start, whatever the launch method; pure.

What a launcher starts itself gets the variables as that launcher hands them on."""


@dataclass(slots=True)
class Activity:
    """What a process has written: ``bytes`` of it, the last at ``spoke_at`` (the clock's seconds).

    A process that has written nothing spoke last when it was started.
    """

    spoke_at: float
    bytes: int = 0

    def note(self, size: int, now: float) -> None:
        self.bytes += size
        self.spoke_at = now


@dataclass(frozen=True, slots=True)
class Living:
    """A process that was started."""

    spec: ProcessSpec
    pid: int
    activity: Activity


@dataclass(slots=True)
class Life:
    """A generation while it lives; ``processes`` grows as they are started."""

    plan: Plan
    processes: list[Living] = field(default_factory=list)

    @property
    def generation(self) -> int:
        return self.plan.start.generation
