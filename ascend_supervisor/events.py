"""What we tell: the schema of the log. Names are for ever, and a key has one type for ever."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

from ascend_supervisor.quoting import printable

Level = Literal["debug", "info", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Event:
    """Its fields are its keys; ``msg`` is the sentence for people.

    ``level`` is the usual one, ``severity`` that of this very event.
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
        """``msg`` as its parts give it; a stranger's part may hold line breaks."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class SupervisorStarted(Event):
    name: ClassVar[str] = "supervisor.started"
    version: str
    command: tuple[str, ...]
    method: str
    restarts: int
    settings: tuple[str, ...]

    @property
    def sentence(self) -> str:
        return f"ascend_supervisor {self.version} will run: {' '.join(self.command)}"


@dataclass(frozen=True, slots=True)
class RankTableWaiting(Event):
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


@dataclass(frozen=True, slots=True)
class RankTableUnwatched(Event):
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


@dataclass(frozen=True, slots=True)
class RankTableReady(Event):
    name: ClassVar[str] = "rank_table.ready"
    path: str
    format: str
    world_size: int
    servers: int
    this_server: str
    local_ranks: tuple[int, ...]
    sha256: str

    @property
    def sentence(self) -> str:
        ranks = ", ".join(map(str, self.local_ranks)) or "none"
        return (
            f"the rank table {self.path} ({self.format}) holds "
            f"{counted(self.world_size, 'device')} on {counted(self.servers, 'server')}; "
            f"this is {self.this_server}, with ranks {ranks}"
        )


@dataclass(frozen=True, slots=True)
class GenerationStarted(Event):
    name: ClassVar[str] = "generation.started"
    generation: int
    restarts_left: int

    @property
    def sentence(self) -> str:
        return f"generation {self.generation} starts; restarts left: {self.restarts_left}"


@dataclass(frozen=True, slots=True)
class ProcessStarted(Event):
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


@dataclass(frozen=True, slots=True)
class ProcessExited(Event):
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


@dataclass(frozen=True, slots=True)
class GenerationEnded(Event):
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


@dataclass(frozen=True, slots=True)
class RestartScheduled(Event):
    name: ClassVar[str] = "restart.scheduled"
    delay_seconds: float
    restarts_left: int

    @property
    def sentence(self) -> str:
        return (
            f"all ranks restart in {self.delay_seconds:.1f} s; "
            f"restarts left after that: {self.restarts_left}"
        )


@dataclass(frozen=True, slots=True)
class ReleaseWaiting(Event):
    name: ClassVar[str] = "release.waiting"
    remaining: tuple[str, ...]
    waited_seconds: float

    @property
    def sentence(self) -> str:
        return "the devices are still held by: " + "; ".join(self.remaining)


@dataclass(frozen=True, slots=True)
class OutputDropped(Event):
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


@dataclass(frozen=True, slots=True)
class OutputUnread(Event):
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


@dataclass(frozen=True, slots=True)
class LogBlocked(Event):
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


@dataclass(frozen=True, slots=True)
class LogLost(Event):
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


@dataclass(frozen=True, slots=True)
class LogRotated(Event):
    name: ClassVar[str] = "log.rotated"
    rank: int | None
    path: str
    program: str | None = None

    @property
    def sentence(self) -> str:
        subject = who(self.rank, self.program)
        return f"{subject} has a new log file {self.path}; the full one is {self.path}.1"


@dataclass(frozen=True, slots=True)
class StopWaiting(Event):
    name: ClassVar[str] = "stop.waiting"
    level: ClassVar[Level] = "warning"
    remaining: tuple[str, ...]

    @property
    def sentence(self) -> str:
        return "still waiting for the end of: " + "; ".join(self.remaining)


@dataclass(frozen=True, slots=True)
class OrphansKilled(Event):
    name: ClassVar[str] = "orphans.killed"
    level: ClassVar[Level] = "warning"
    count: int
    pids: tuple[int, ...]
    earlier_start: bool

    @property
    def sentence(self) -> str:
        whose = "an earlier start of the supervisor" if self.earlier_start else "the ranks"
        return f"killed {counted(self.count, 'process', 'processes')} that {whose} had left behind"


@dataclass(frozen=True, slots=True)
class SignalReceived(Event):
    name: ClassVar[str] = "signal.received"
    signal: str
    effect: str

    @property
    def sentence(self) -> str:
        return f"received {self.signal}: {self.effect}"


@dataclass(frozen=True, slots=True)
class Diagnostic(Event):
    """Something that a library or the interpreter says: a warning, a complaint."""

    name: ClassVar[str] = "diagnostic"
    level: ClassVar[Level] = "warning"
    source: str
    message: str
    traceback: str | None

    @property
    def sentence(self) -> str:
        return f"{self.source}: {self.message}"


@dataclass(frozen=True, slots=True)
class Defect(Event):
    """An error of ours that nobody expected."""

    name: ClassVar[str] = "supervisor.defect"
    level: ClassVar[Level] = "error"
    message: str
    traceback: str

    @property
    def sentence(self) -> str:
        return f"a defect of ascend_supervisor: {self.message}"


@dataclass(frozen=True, slots=True)
class SupervisorExited(Event):
    name: ClassVar[str] = "supervisor.exited"
    exit_code: int
    reason: str
    generations: int
    root_cause: str | None

    @property
    def severity(self) -> Level:
        return "error" if self.exit_code else self.level

    @property
    def refusal(self) -> str | None:
        """Why nothing was started, in a sentence; a rank's failure has lines of its log instead."""
        cause = self.root_cause
        return cause if self.exit_code and cause and "\n" not in cause else None

    @property
    def sentence(self) -> str:
        return f"ending with exit code {self.exit_code}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Output(Event):
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
