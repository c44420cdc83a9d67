"""The schema of the log. Names never change, and neither does the type of a key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Literal

from msgspec import Struct

from ascend_supervisor.untrusted_text import printable

Level = Literal["debug", "info", "warning", "error"]
ClusterSource = Literal["rank_table", "standalone", "operator", "kubeflow", "modelarts", "none"]

CLUSTER_WORDS: Mapping[ClusterSource, str] = {
    "rank_table": "the rank table",
    "standalone": "--standalone",
    "operator": "the variables of Ascend Operator",
    "kubeflow": "the variables of Kubeflow",
    "modelarts": "MA_NUM_HOSTS and MA_NUM_GPUS",
}


class Event(Struct, frozen=True):
    """Its fields are its keys; ``msg`` is the sentence for people.

    ``level`` is the usual level, ``severity`` the level of this one event.
    """

    name: ClassVar[str]
    level: ClassVar[Level] = "info"

    @property
    def severity(self) -> Level:
        return self.level

    @property
    def msg(self) -> str:
        return printable(self.sentence)

    @property
    def sentence(self) -> str:
        """``msg`` from its parts; parts from outside may hold line breaks."""
        raise NotImplementedError


class SupervisorStarted(Event, frozen=True):
    name: ClassVar[str] = "supervisor.started"
    version: str
    command: tuple[str, ...]
    method: str
    restarts: int
    settings: tuple[str, ...]
    cluster: ClusterSource = "rank_table"
    cluster_hint: str | None = None

    @property
    def sentence(self) -> str:
        hint = f" ({self.cluster_hint})" if self.cluster_hint else ""
        return (
            f"ascend_supervisor {self.version} will run: {' '.join(self.command)}; "
            f"{self._cluster_words}{hint}"
        )

    @property
    def _cluster_words(self) -> str:
        if self.cluster == "none":
            return "no cluster is read: the command starts its ranks itself"
        return f"the cluster comes from {CLUSTER_WORDS[self.cluster]}"


class RankTableWaiting(Event, frozen=True):
    name: ClassVar[str] = "rank_table.waiting"
    path: str
    reason: str
    waited_seconds: float

    @property
    def sentence(self) -> str:
        return (
            f"waiting for the rank table {self.path}: {self.reason} "
            f"({self.waited_seconds:.0f} s so far)"
        )


class RankTableUnwatched(Event, frozen=True):
    name: ClassVar[str] = "rank_table.unwatched"
    level: ClassVar[Level] = "warning"
    path: str
    reason: str

    @property
    def sentence(self) -> str:
        return (
            f"no file events for {self.path} ({self.reason}); "
            "it is looked at every second all the same"
        )


class RankTableReady(Event, frozen=True):
    name: ClassVar[str] = "rank_table.ready"
    path: str
    format: str
    world_size: int
    servers: int
    this_server: str
    local_ranks: tuple[int, ...]
    sha256: str
    warnings: tuple[str, ...]

    @property
    def severity(self) -> Level:
        return "warning" if self.warnings else self.level

    @property
    def sentence(self) -> str:
        ranks = ", ".join(map(str, self.local_ranks)) or "none"
        doubts = "".join(f"; {warning}" for warning in self.warnings)
        return (
            f"the rank table {self.path} ({self.format}) holds "
            f"{counted(self.world_size, 'device')} on {counted(self.servers, 'server')}; "
            f"this is {self.this_server}, with ranks {ranks}{doubts}"
        )


class GenerationStarted(Event, frozen=True):
    name: ClassVar[str] = "generation.started"
    generation: int
    restarts_left: int

    @property
    def sentence(self) -> str:
        return f"generation {self.generation} starts; restarts left: {self.restarts_left}"


class ProcessStarted(Event, frozen=True):
    name: ClassVar[str] = "process.started"
    rank: int | None
    local_rank: int | None
    generation: int
    child_pid: int
    log: str
    program: str | None = None

    @property
    def sentence(self) -> str:
        subject = who(self.rank, self.program)
        return f"{subject} runs as process {self.child_pid}, its log is {self.log}"


class ProcessExited(Event, frozen=True):
    name: ClassVar[str] = "process.exited"
    rank: int | None
    local_rank: int | None
    generation: int
    child_pid: int
    status: int | None
    signal: str | None
    runtime_seconds: float
    first_failure: bool
    oom_killed: bool | None
    program: str | None = None

    @property
    def severity(self) -> Level:
        return "error" if self.first_failure else self.level

    @property
    def sentence(self) -> str:
        how = f"was killed by {self.signal}" if self.signal else f"exited with status {self.status}"
        oom = ", because memory ran out (OOM kill)" if self.oom_killed else ""
        first = "; this is the first failure" if self.first_failure else ""
        return (
            f"{who(self.rank, self.program)} {how}{oom} after {self.runtime_seconds:.1f} s{first}"
        )


class GenerationEnded(Event, frozen=True):
    name: ClassVar[str] = "generation.ended"
    generation: int
    outcome: str
    first_failed_rank: int | None
    duration_seconds: float
    next: Literal["restart", "stop"]

    @property
    def sentence(self) -> str:
        return (
            f"generation {self.generation} ended after {self.duration_seconds:.1f} s "
            f"({self.outcome}); next: {self.next}"
        )


class RestartScheduled(Event, frozen=True):
    name: ClassVar[str] = "restart.scheduled"
    delay_seconds: float
    restarts_left: int

    @property
    def sentence(self) -> str:
        return (
            f"all ranks restart in {self.delay_seconds:.1f} s; "
            f"restarts left after that: {self.restarts_left}"
        )


class ReleaseWaiting(Event, frozen=True):
    name: ClassVar[str] = "release.waiting"
    remaining: tuple[str, ...]
    waited_seconds: float

    @property
    def sentence(self) -> str:
        return "the devices are still held by: " + "; ".join(self.remaining)


class OutputDropped(Event, frozen=True):
    name: ClassVar[str] = "output.dropped"
    level: ClassVar[Level] = "warning"
    rank: int | None
    lines: int
    reason: str
    program: str | None = None

    @property
    def sentence(self) -> str:
        lines = counted(self.lines, "line")
        subject = who(self.rank, self.program)
        return f"{lines} of {subject} not copied to stdout ({self.reason}); the log has them"


class OutputUnread(Event, frozen=True):
    name: ClassVar[str] = "output.unread"
    level: ClassVar[Level] = "warning"
    rank: int | None
    path: str
    reason: str
    program: str | None = None

    @property
    def sentence(self) -> str:
        return (
            f"the end of {self.path}, the log of {who(self.rank, self.program)}, is missing on "
            f"stdout: {self.reason}"
        )


class LogBlocked(Event, frozen=True):
    name: ClassVar[str] = "log.blocked"
    level: ClassVar[Level] = "error"
    rank: int | None
    path: str
    reason: str
    program: str | None = None

    @property
    def sentence(self) -> str:
        subject = who(self.rank, self.program)
        return (
            f"{self.path} cannot be written ({self.reason}); {subject} goes on, 1 MiB of what it "
            "says is kept, and the rest is discarded and counted until the log can be written again"
        )


class LogLost(Event, frozen=True):
    name: ClassVar[str] = "log.lost"
    level: ClassVar[Level] = "error"
    rank: int | None
    bytes: int
    reason: str
    program: str | None = None

    @property
    def sentence(self) -> str:
        size = counted(self.bytes, "byte")
        whose = who(self.rank, self.program)
        return f"missing in the log of {whose}: {size}, because of this: {self.reason}"


class LogRotated(Event, frozen=True):
    name: ClassVar[str] = "log.rotated"
    rank: int | None
    path: str
    program: str | None = None

    @property
    def sentence(self) -> str:
        subject = who(self.rank, self.program)
        return f"{subject} has a new log file {self.path}; the full one is {self.path}.1"


class StopWaiting(Event, frozen=True):
    name: ClassVar[str] = "stop.waiting"
    level: ClassVar[Level] = "warning"
    remaining: tuple[str, ...]

    @property
    def sentence(self) -> str:
        return "still waiting for the end of: " + "; ".join(self.remaining)


class OrphansKilled(Event, frozen=True):
    name: ClassVar[str] = "orphans.killed"
    level: ClassVar[Level] = "warning"
    count: int
    pids: tuple[int, ...]
    earlier_start: bool

    @property
    def sentence(self) -> str:
        whose = "an earlier start of the supervisor" if self.earlier_start else "the ranks"
        return f"killed {counted(self.count, 'process', 'processes')} that {whose} had left behind"


class SignalReceived(Event, frozen=True):
    name: ClassVar[str] = "signal.received"
    signal: str
    effect: str

    @property
    def sentence(self) -> str:
        return f"received {self.signal}: {self.effect}"


class Diagnostic(Event, frozen=True):
    """A message of a library or the interpreter: a warning, a complaint."""

    name: ClassVar[str] = "diagnostic"
    level: ClassVar[Level] = "warning"
    source: str
    message: str
    traceback: str | None

    @property
    def sentence(self) -> str:
        return f"{self.source}: {self.message}"


class Defect(Event, frozen=True):
    """An unexpected error of ours."""

    name: ClassVar[str] = "supervisor.defect"
    level: ClassVar[Level] = "error"
    message: str
    traceback: str

    @property
    def sentence(self) -> str:
        return f"a defect of ascend_supervisor: {self.message}"


class SupervisorExited(Event, frozen=True):
    name: ClassVar[str] = "supervisor.exited"
    exit_code: int
    reason: str
    generations: int
    root_cause: str | None

    @property
    def severity(self) -> Level:
        return "error" if self.exit_code else self.level

    @property
    def sentence(self) -> str:
        return f"ending with exit code {self.exit_code}: {self.reason}"


class Output(Event, frozen=True):
    """A mirrored line of a rank; written by the console itself, far too often for a report."""

    name: ClassVar[str] = "output"
    rank: int | None
    local_rank: int | None
    generation: int
    message: str
    partial: bool
    program: str | None = None

    @property
    def sentence(self) -> str:
        return f"{who(self.rank, self.program)} wrote a line"


Report = Callable[[Event], None]
"""Synchronous, cheap, never raises; to be called in the event loop's thread."""


def who(rank: int | None, program: str | None) -> str:
    return program or "the launcher" if rank is None else f"rank {rank}"


def counted(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
