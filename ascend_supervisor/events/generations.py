"""Generations and their processes, from start to restart."""

from __future__ import annotations

from typing import ClassVar, Literal

from ascend_supervisor.events import Event, Level
from ascend_supervisor.events.words import who


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


class RestartsBarred(Event, frozen=True):
    """Restarts were asked for, but ``reason``; ``remedy`` is what would make them possible."""

    name: ClassVar[str] = "restarts.barred"
    level: ClassVar[Level] = "warning"
    reason: str
    remedy: str

    @property
    def sentence(self) -> str:
        return f"--restarts does not apply: {self.reason}; {self.remedy}"


class RestartScheduled(Event, frozen=True):
    """``cause`` ended the generation; ``free``: the restart was not charged to the budget."""

    name: ClassVar[str] = "restart.scheduled"
    delay_seconds: float
    restarts_left: int
    cause: str = ""
    free: bool = False

    @property
    def sentence(self) -> str:
        return (
            f"all ranks restart in {self.delay_seconds:.1f} s{self._charge}; "
            f"restarts left after that: {self.restarts_left}"
        )

    @property
    def _charge(self) -> str:
        """A free restart follows no failure that an event has told of, so it says why it comes."""
        if not self.free:
            return ""
        return f", not charged to --restarts ({self.cause})" if self.cause else ", not charged"
