"""What the state file holds; values only, because probes read it every few seconds."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from ascend_supervisor.causes.diagnosis import Diagnosis
from ascend_supervisor.files.to_json import to_json
from ascend_supervisor.progress.progress import ProgressStatus
from ascend_supervisor.progress.reading import StepNumber

MOST_GENERATIONS = 100

StatusPhase = Literal["starting", "waiting", "running", "stopping", "backing off", "ended"]


class RankStatus(Struct, frozen=True):
    """One rank: ``status`` and ``signal`` are null while it runs."""

    rank: int | None
    local_rank: int | None
    pid: int
    log: str
    status: int | None = None
    signal: str | None = None


class PastGeneration(Struct, frozen=True):
    """From when to when a generation lasted (RFC 3339, UTC), and how and why it ended.

    ``ended_at`` and ``outcome`` are null while it lasts; ``cause`` is null, too, if it has
    succeeded. ``free``: the restart after it was not charged; null without one.
    """

    generation: int
    started_at: str
    ended_at: str | None = None
    outcome: str | None = None
    cause: str | None = None
    free: bool | None = None


class StandbyStatus(Struct, frozen=True):
    """How many standbys were ``ready`` (--warm), and what they held then."""

    ready: int
    memory_bytes: int

    @property
    def words(self) -> str:
        """For people."""
        return f"{self.ready} warm, {self.memory_bytes / 1e9:.1f} GB of memory"


class Status(Struct, frozen=True):
    """What the state file holds; ``pid`` and ``start_time`` (clock ticks) name the supervisor.

    The restarts of the cluster are null unless it is followed (--follow-cluster).
    ``schedule_count`` and ``start_count`` are what ModelArts counts, null elsewhere: how often it
    has scheduled this pod, and started its boot command. ``generations`` are the latest
    MOST_GENERATIONS, the newest last. ``progress`` is null before anything is known,
    ``standbys`` while none is ready, ``diagnosis`` unless the cause of the latest failure is one
    that the table of causes knows. ``no_progress`` is that of ``generation.ended``; a later start
    in the same place goes on with it.
    """

    job_id: str
    pod: str
    pid: int
    start_time: int | None
    version: str
    phase: StatusPhase = "starting"
    why: str = ""
    generation: int | None = None
    restarts_left: int | None = None
    cluster_restarts_used: int | None = None
    cluster_restarts_limit: int | None = None
    world_size: int | None = None
    ranks: tuple[RankStatus, ...] = ()
    exit_code: int | None = None
    root_cause: str | None = None
    schedule_count: int | None = None
    start_count: int | None = None
    generations: tuple[PastGeneration, ...] = ()
    progress: ProgressStatus | None = None
    standbys: StandbyStatus | None = None
    diagnosis: Diagnosis | None = None
    no_progress: tuple[StepNumber, ...] = ()


def as_json(status: Status) -> bytes:
    return to_json(status, indent=True) + b"\n"
