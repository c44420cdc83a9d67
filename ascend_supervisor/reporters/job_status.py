"""The current status, for a file that is replaced atomically at every change; pure."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.events import Event, Report
from ascend_supervisor.events.cluster import ClusterIncident, ClusterWaiting
from ascend_supervisor.events.generations import (
    GenerationEnded,
    GenerationStarted,
    ProcessExited,
    ProcessStarted,
    RestartScheduled,
    StandbysReady,
)
from ascend_supervisor.events.hangs import HangNoticed
from ascend_supervisor.events.leftovers import PortWaiting
from ascend_supervisor.events.own_etcd import EtcdWaiting
from ascend_supervisor.events.peers import PeersUnreachable, PeersWaiting
from ascend_supervisor.events.rank_table import RankTableReady, RankTableWaiting
from ascend_supervisor.events.supervisor import (
    ControlRequested,
    ExitLingering,
    SignalReceived,
    SupervisorExited,
)
from ascend_supervisor.events.training import (
    CheckpointSaved,
    TrainingProgress,
    TrainingResumed,
    TrainingStalled,
    TrainingStarted,
)
from ascend_supervisor.progress.progress import ProgressStatus
from ascend_supervisor.reporters.status_document import (
    MOST_GENERATIONS,
    PastGeneration,
    RankStatus,
    StandbyStatus,
    Status,
    StatusPhase,
)
from ascend_supervisor.untrusted_text import printable

CAUSE_CHARACTERS = 500

TELL_PROGRESS = (
    TrainingStarted,
    TrainingProgress,
    CheckpointSaved,
    TrainingStalled,
    TrainingResumed,
    GenerationEnded,
    SupervisorExited,
)
"""The events that tell a new progress: not each step writes the file."""


def time_of_day() -> str:
    """RFC 3339, UTC."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class SoFar(Struct, frozen=True):
    """The ``status`` before the first event; when the latest came, and what training is known."""

    status: Status
    now: Callable[[], str | None] = lambda: None
    progress: Callable[[], ProgressStatus | None] = lambda: None


def status_file(put: Callable[[Status], None], so_far: SoFar) -> Report:
    """A report that passes every new state to ``put``, and the first one at once."""
    current = so_far.status
    put(current)

    def report(event: Event) -> None:
        nonlocal current
        following = after(current, event, so_far.now(), so_far.progress())
        if following != current:
            current = following
            put(current)

    return report


def after(
    status: Status,
    event: Event,
    at: str | None = None,
    progress: ProgressStatus | None = None,
) -> Status:
    """The status after ``event``; final once the supervisor has ended.

    ``at`` is when it came (RFC 3339); without that, generations are not listed. ``progress`` is
    what is known of the training then.
    """
    if status.phase == "ended":
        return status
    changed = _changed(status, event)
    if isinstance(event, StandbysReady):
        changed = replace(changed, standbys=StandbyStatus(event.standbys, event.memory_bytes))
    if isinstance(event, (GenerationEnded, SupervisorExited)):
        changed = replace(changed, diagnosis=event.diagnosis)
    if isinstance(event, GenerationEnded) and event.no_progress is not None:
        changed = replace(changed, no_progress=event.no_progress)
    if at is not None:
        known = _generations_after(status.generations, event, at)
        changed = replace(changed, generations=known)
    if isinstance(event, SupervisorExited) and progress is not None and event.account is not None:
        progress = replace(  # its sentence has the same figures
            progress, account=event.account, percent_training=event.percent_training
        )
    if isinstance(event, TELL_PROGRESS) or changed != status:
        return replace(changed, progress=progress)  # whatever is written has it up to then
    return status


def _generations_after(
    known: tuple[PastGeneration, ...], event: Event, at: str
) -> tuple[PastGeneration, ...]:
    if isinstance(event, GenerationStarted):
        return (*known, PastGeneration(event.generation, at))[-MOST_GENERATIONS:]
    return (*known[:-1], _latest_after(known[-1], event, at)) if known else known


def _latest_after(latest: PastGeneration, event: Event, at: str) -> PastGeneration:
    match event:
        case GenerationEnded():
            cause = _line(event.cause)
            return replace(latest, ended_at=at, outcome=event.outcome, cause=cause)
        case RestartScheduled():
            return replace(latest, cause=_line(event.cause) or latest.cause, free=event.free)
        case SupervisorExited():
            cause = latest.cause or _line(event.root_cause or "")
            return replace(latest, ended_at=latest.ended_at or at, cause=cause)
        case _:
            return latest


def _line(cause: str) -> str | None:
    """Its first line, which names it."""
    return printable(cause.partition("\n")[0], CAUSE_CHARACTERS) or None


def _changed(status: Status, event: Event) -> Status:
    if (what := _waited_for(event)) is not None:
        phase: StatusPhase = "stopping" if status.phase == "stopping" else "waiting"
        return replace(status, phase=phase, why=printable(what))
    match event:
        case RankTableReady():
            return replace(status, world_size=event.world_size)
        case GenerationStarted():
            return replace(
                status,
                standbys=None,
                phase="running",
                why=event.msg,
                generation=event.generation,
                ranks=(),
                **_restarts(event),
            )
        case HangNoticed():
            return replace(status, why=event.msg)
        case ProcessStarted() | ProcessExited():
            return _with_ranks(status, event)
        case (
            SignalReceived(signal="SIGTERM" | "SIGINT" | "SIGQUIT")
            | ControlRequested(request="stop")
        ):
            return replace(status, phase="stopping", why=event.msg)
        case GenerationEnded() if event.next == "stop":
            return replace(status, phase="stopping", why=event.msg)
        case RestartScheduled():
            return replace(status, phase="backing off", why=event.msg, **_restarts(event))
        case ExitLingering() | SupervisorExited():
            return _at_the_end(replace(status, why=event.msg, root_cause=event.root_cause), event)
        case _:
            return status


def _waited_for(event: Event) -> str | None:
    match event:
        case RankTableWaiting() | ClusterWaiting() | ClusterIncident():
            return event.what
        case PeersWaiting() | EtcdWaiting() | PortWaiting():
            return event.what
        case PeersUnreachable(ranks_run=False):
            return event.msg
        case _:
            return None


def _restarts(event: GenerationStarted | RestartScheduled) -> dict[str, int | None]:
    return {
        "restarts_left": event.restarts_left,
        "cluster_restarts_used": event.cluster_restarts_used,
        "cluster_restarts_limit": event.cluster_restarts_limit,
    }


def _at_the_end(status: Status, event: ExitLingering | SupervisorExited) -> Status:
    if isinstance(event, ExitLingering):
        return replace(status, phase="stopping")
    return replace(status, phase="ended", exit_code=event.exit_code)


def _with_ranks(status: Status, event: ProcessStarted | ProcessExited) -> Status:
    """A first failure is why a generation that runs will end."""
    is_why = isinstance(event, ProcessExited) and event.first_failure and status.phase == "running"
    why = event.msg if is_why else status.why
    return replace(status, why=why, ranks=_ranks_after(status.ranks, event))


def _ranks_after(
    ranks: tuple[RankStatus, ...], event: ProcessStarted | ProcessExited
) -> tuple[RankStatus, ...]:
    if isinstance(event, ProcessStarted):
        return (*ranks, RankStatus(event.rank, event.local_rank, event.child_pid, event.log))
    return tuple(
        replace(rank, status=event.status, signal=event.signal)
        if rank.pid == event.child_pid
        else rank
        for rank in ranks
    )
