"""Generations and their processes, from start to restart."""

from __future__ import annotations

from typing import ClassVar, Literal

from ascend_supervisor.causes.diagnosis import Diagnosis
from ascend_supervisor.events import Event, Level
from ascend_supervisor.phrases import counted, duration, restarts_words, who


class GenerationStarted(Event, frozen=True):
    """The restarts of the cluster are None if it is not followed."""

    name: ClassVar[str] = "generation.started"
    generation: int
    restarts_left: int
    cluster_restarts_used: int | None = None
    cluster_restarts_limit: int | None = None

    @property
    def sentence(self) -> str:
        used, limit = self.cluster_restarts_used, self.cluster_restarts_limit
        return (
            f"generation {self.generation} starts; "
            f"{restarts_words(self.restarts_left, used, limit)}"
        )


class ProcessStarted(Event, frozen=True):
    """``cpus`` is where it runs (--bind-cpus), as the kernel says after the start: ``0-3,8``."""

    name: ClassVar[str] = "process.started"
    rank: int | None
    local_rank: int | None
    generation: int
    child_pid: int
    log: str
    program: str | None = None
    warm: bool = False
    cpus: str | None = None

    @property
    def sentence(self) -> str:
        subject = who(self.rank, self.program)
        warm = ", which had made its imports" if self.warm else ""
        cpus = f" (CPUs {self.cpus})" if self.cpus else ""
        return f"{subject} runs as process {self.child_pid}{cpus}{warm}, its log is {self.log}"


class StandbysReady(Event, frozen=True):
    """So many ``standbys`` have made their imports, in ``seconds``; they hold ``memory_bytes``."""

    name: ClassVar[str] = "standbys.ready"
    standbys: int
    seconds: float
    memory_bytes: int

    @property
    def sentence(self) -> str:
        return (
            f"{counted(self.standbys, 'standby')} ready after {duration(self.seconds)}: the next "
            f"generation starts warm; they take {self.memory_bytes / 1e9:.1f} GB of memory"
        )


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


class RanksEnded(Event, frozen=True):
    """All ranks here have ended with 0, but not those of other servers, which need ``awaited``."""

    name: ClassVar[str] = "ranks.ended"
    generation: int
    awaited: str

    @property
    def sentence(self) -> str:
        return (
            f"all ranks here have ended with 0; {self.awaited} ends when those of the other "
            "servers have ended, too"
        )


class GenerationEnded(Event, frozen=True):
    """``cause`` is a sentence if the outcome is a fault; the events before it tell the others.

    ``step`` is the last one that was told in it, ``steps_lost`` how many are in no checkpoint; null
    where that is unknown. ``no_progress`` are the last steps of the generations in a row that came
    no further than the best step before them (0: no step), this one the last; None: they are those
    of before. ``diagnosis`` is the cause of the first failure, where the table of causes knows it.
    ``drain_seconds`` passed from the first reason to end until the ranks were told to stop,
    ``grace_seconds`` from then until nothing of the generation was left.
    """

    name: ClassVar[str] = "generation.ended"
    generation: int
    outcome: str
    first_failed_rank: int | None
    duration_seconds: float
    next: Literal["restart", "stop"]
    cause: str = ""
    step: int | None = None
    steps_lost: int | None = None
    no_progress: tuple[int, ...] | None = None
    diagnosis: Diagnosis | None = None
    drain_seconds: float = 0.0
    grace_seconds: float = 0.0

    @property
    def sentence(self) -> str:
        is_told_next = self.next == "stop"  # supervisor.exited begins with it
        why = f": {self.cause}" if self.cause and not is_told_next else f" ({self.outcome})"
        return (
            f"generation {self.generation} ended after {self.duration_seconds:.1f} s"
            f"{self._steps}{why}; next: {self.next}"
        )

    @property
    def _steps(self) -> str:
        if self.step is None:
            return ""
        lost = f", {counted(self.steps_lost, 'step')} lost" if self.steps_lost else ""
        return f" at step {self.step:,}{lost}"


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
    """``cause`` ended the generation, and the text begins with it.

    ``free``: the restart was not charged to the budget.

    The restarts of the cluster are None if it is not followed; this one counts, too.
    ``peers_server`` is the index of the server that the cause is on, with --peers. ``diagnosis`` is
    that cause, where the table of causes knows it. ``root_cause`` is that of ``supervisor.exited``,
    with the last lines of the rank.
    """

    name: ClassVar[str] = "restart.scheduled"
    delay_seconds: float
    restarts_left: int
    cause: str = ""
    free: bool = False
    cluster_restarts_used: int | None = None
    cluster_restarts_limit: int | None = None
    peers_server: int | None = None
    diagnosis: Diagnosis | None = None
    root_cause: str | None = None

    @property
    def sentence(self) -> str:
        what = f"all ranks restart in {self.delay_seconds:.1f} s{self._charge}; {self._left}"
        return f"{self.cause}; {what}" if self.cause and not self.free else what

    @property
    def _left(self) -> str:
        used, limit = self.cluster_restarts_used, self.cluster_restarts_limit
        if used is None:
            return f"restarts left after that: {self.restarts_left}"
        return restarts_words(self.restarts_left, used, limit)

    @property
    def _charge(self) -> str:
        if not self.free:
            return ""
        return f", not charged to --restarts ({self.cause})" if self.cause else ", not charged"
