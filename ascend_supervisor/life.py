"""A generation: what is agreed, planned and observed of it and of the whole job; values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from msgspec import Struct, field

from ascend_supervisor.cluster.rank_table import Entry, FoundTable
from ascend_supervisor.output.last_lines import Activity
from ascend_supervisor.process_spec import ProcessSpec
from ascend_supervisor.restart_policy import ClusterRestarts


class Bar(Struct, frozen=True):
    """Why --restarts does not apply here, and what would make it apply; two half sentences."""

    reason: str
    remedy: str


class Placed(Struct, frozen=True):
    """A rank table, and which entry of it is this machine."""

    found: FoundTable
    node_rank: int
    entry: Entry


class Start(Struct, frozen=True):
    """What all servers of the job have agreed on; ``entry`` is ours, at position ``node_rank``.

    ``restarts_left`` is what the budget allows after this generation. ``bar`` says why it allows
    nothing, although restarts were asked for. ``cluster`` is None if the cluster is not followed.
    """

    generation: int
    found: FoundTable
    node_rank: int
    entry: Entry
    restarts_left: int
    bar: Bar | None = None
    cluster: ClusterRestarts | None = None

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
    generation ends with a fault. ``remark`` is what its CPUs may surprise with (--bind-cpus).
    """

    start: Start
    specs: tuple[ProcessSpec, ...]
    lacking: str | None = None
    remark: str = ""


Equip = Callable[[ProcessSpec], ProcessSpec]
"""What an option adds to every process that we start, whatever the launch method; pure.

Processes that a launcher starts get the variables as the launcher passes them on."""


class Notified(Struct):
    """What a rank has said over its notify socket (sd_notify(3)); times are the clock's seconds.

    ``heard_at`` is its last message, ``watchdog_at`` its last WATCHDOG=1, ``watchdog_seconds`` its
    WATCHDOG_USEC. EXTEND_TIMEOUT_USEC moves no limit before ``extended_until``. ``gave_up_at`` is
    WATCHDOG=trigger: the rank itself says that it hangs. ``step`` is its X_STEP, which came at
    ``step_at``, ``steps`` its X_STEPS, ``step_seconds`` its X_SECONDS, ``checkpoint`` its
    X_CHECKPOINT.
    """

    heard_at: float
    status: str = ""
    ready_at: float | None = None
    watchdog_at: float | None = None
    watchdog_seconds: float | None = None
    extended_until: float = 0.0
    gave_up_at: float | None = None
    is_stopping: bool = False
    step: int | None = None
    step_at: float = 0.0
    steps: int | None = None
    step_seconds: float | None = None
    checkpoint: int | None = None


class Living(Struct, frozen=True):
    """A process that was started.

    ``activity_of_workers`` belongs to a launcher's workers that write logs of their own, in the
    order of its ``worker_logs``. ``ranks_of_workers`` maps the pids of a launcher's workers to
    ranks, as they are seen. ``is_warm``: it had been a standby.
    """

    spec: ProcessSpec
    pid: int
    activity: Activity
    activity_of_workers: tuple[Activity, ...] = ()
    ranks_of_workers: Mapping[int, int] = field(default_factory=dict)
    is_warm: bool = False


class Life(Struct):
    """A generation while it runs; ``processes`` grows as they are started.

    ``notified`` holds what ranks have said over their notify socket, by rank; who waits for changes
    of it is among the ``listeners``. ``is_ending``: the first reason to end it is known.
    """

    plan: Plan
    processes: list[Living] = field(default_factory=list)
    notified: dict[int, Notified] = field(default_factory=dict)
    listeners: set[Callable[[], None]] = field(default_factory=set)
    is_ending: bool = False

    def tell_notified(self) -> None:
        """To be called after each change of ``notified``."""
        for listener in tuple(self.listeners):
            listener()

    @property
    def generation(self) -> int:
        return self.plan.start.generation


class NothingSeen(Struct, frozen=True):
    """A look at the ranks of a generation has shown nothing; ``reason`` is half a sentence."""

    reason: str


ServerPhase = Literal[
    "missing", "gathering", "ready", "running", "done", "left", "lost", "ending", "ended"
]


def loss_of(server: int) -> str:
    """How a cause begins that is the loss of a server."""
    return f"server {server} was lost"


class ServerSeen(Struct, frozen=True):
    """One server; its ``last_word`` (a clause) and ``phase`` were first seen ``age`` seconds ago.

    ``host`` is its name or address, empty if that is not known.
    """

    server: int
    host: str
    phase: ServerPhase
    last_word: str
    age: float


class JobSeen(Struct, frozen=True):
    """All servers of a job, as this one saw them ``age`` seconds ago, in order of their index.

    ``name`` is that of the job, ``server`` our own index; None if we have none yet.
    """

    name: str
    server: int | None
    age: float
    servers: tuple[ServerSeen, ...]
