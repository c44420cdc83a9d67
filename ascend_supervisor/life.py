"""A generation: what is agreed, planned and observed of it and of the whole job; values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from msgspec import Struct, field

from ascend_supervisor.cluster.rank_table import Entry, FoundTable
from ascend_supervisor.process_spec import ProcessSpec
from ascend_supervisor.restart_policy import ClusterRestarts
from ascend_supervisor.untrusted_text import lines_in


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


Chunk = bytes
"""A part of the output; ``Activity.bytes`` hides the builtin name there."""
TAIL_BYTES = 64 * 1024
"""How much of the end is kept, to find why a process failed: others may write after it."""
KEPT_BYTES = 2 * TAIL_BYTES
"""How much is kept at most, because it is not cut each time: a rank may write byte by byte."""
LINE_BYTES = 8 * 1024
"""How much of the end is searched for the last line."""


def to_nobody() -> None:
    """Nobody waits for output."""


class Activity(Struct):
    """How many ``bytes`` a process has written, the last at ``spoke_at`` (the clock's seconds).

    If it has written nothing, ``spoke_at`` is just before its start. It wrote first
    at ``first_at``; None if it has not. ``has_ended`` is false for workers that a launcher started,
    whatever became of them. ``tell`` is called after each change; one who waits for output
    replaces it.
    """

    spoke_at: float
    bytes: int = 0
    has_ended: bool = False
    tail: bytearray = field(default_factory=bytearray)
    tell: Callable[[], None] = to_nobody
    first_at: float | None = None

    def note(self, size: int, now: float) -> None:
        """Count ``size`` bytes that were written but not read."""
        self.bytes += size
        self.first_at = now if self.first_at is None else self.first_at
        self.spoke_at = now
        self.tell()

    def take(self, chunk: Chunk, now: float) -> None:
        """Count ``chunk``, and keep the end of it."""
        self.tail += chunk[-TAIL_BYTES:]
        if len(self.tail) > KEPT_BYTES:
            del self.tail[:-TAIL_BYTES]
        self.note(len(chunk), now)

    def since(self, count: int, most: int = KEPT_BYTES) -> Chunk:
        """The last ``most`` bytes of what was read after the first ``count``, as far as kept."""
        size = min(self.bytes - count, most)
        return bytes(self.tail[-size:]) if size > 0 else b""

    @property
    def last_lines(self) -> tuple[str, ...]:
        """The last lines of what was read so far."""
        return lines_in(self.tail[-TAIL_BYTES:])

    @property
    def last_line(self) -> str:
        """The last one that is not blank; empty if there is none. It may hold escape sequences."""
        lines = lines_in(self.tail[-LINE_BYTES:])
        return next((line for line in reversed(lines) if line.strip()), "")


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
