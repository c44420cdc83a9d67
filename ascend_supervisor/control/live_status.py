"""Where the job stands now: what the state file holds, and what is written nowhere; pure."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from ascend_supervisor.control.history import History
from ascend_supervisor.control.status_answer import (
    MOST_TEXT,
    LiveStatus,
    PeersStatus,
    RankRow,
    RankState,
    ServerRow,
)
from ascend_supervisor.life import JobSeen, Life, Living, Notified
from ascend_supervisor.output.last_lines import Activity
from ascend_supervisor.untrusted_text import clipped, harmless_text


class Moment(Struct, frozen=True):
    """The present, by both of the clock's measures, in seconds (see ``Clock``)."""

    now: float
    elapsed: float


def live_status(
    history: History, life: Life | None, moment: Moment, job: JobSeen | None = None
) -> LiveStatus:
    """``life`` is the latest generation, also after its end; None before the first."""
    return LiveStatus(
        status=history.status,
        started_at=history.started_at,
        phase_seconds=_seconds(moment.elapsed - history.phase_since),
        ranks=() if life is None else tuple(_rows(history, life, moment)),
        restarts=history.restarts,
        restarts_left=history.status.restarts_left,
        peers=None if job is None else _peers(job),
    )


def _peers(job: JobSeen) -> PeersStatus:
    rows = tuple(
        ServerRow(
            server=one.server,
            host=_text(one.host) or None,
            phase=one.phase,
            last_word=_text(one.last_word),
            age_seconds=_seconds(one.age),
        )
        for one in job.servers
    )
    return PeersStatus(job.name, job.server, _seconds(job.age), rows)


def _rows(history: History, life: Life, moment: Moment) -> Iterator[RankRow]:
    for living in life.processes:
        uptime = _uptime(history, living.pid, moment)
        notified = None if living.spec.rank is None else life.notified.get(living.spec.rank)
        yield _row(
            _Subject(living.spec.rank, living.spec.local_rank, living.pid, living.spec.program),
            _Signs(living.activity, notified, living.activity.has_ended),
            uptime,
            moment,
        )
        for subject, activity in _workers(life, living):
            told = None if subject.rank is None else life.notified.get(subject.rank)
            signs = _Signs(activity, told, living.activity.has_ended)
            yield _row(subject, signs, uptime, moment)


class _Subject(Struct, frozen=True):
    """What a row is about."""

    rank: int | None
    local_rank: int | None
    pid: int | None
    program: str | None = None


class _Signs(Struct, frozen=True):
    """What it has given of itself: output, if it has one of its own, and notify messages."""

    activity: Activity | None
    notified: Notified | None
    has_ended: bool

    @property
    def state(self) -> RankState:
        if self.has_ended:
            return "ended"
        if self.notified is None:
            return "running"
        if self.notified.is_stopping:
            return "stopping"
        return "running" if self.notified.ready_at is None else "ready"

    @property
    def latest(self) -> float | None:
        """The last sign of life, in seconds of the clock."""
        moments = [] if self.activity is None else [self.activity.spoke_at]
        moments += [] if self.notified is None else [self.notified.heard_at]
        return max(moments, default=None)


def _workers(life: Life, living: Living) -> Iterator[tuple[_Subject, Activity | None]]:
    """A launcher's workers: those with logs of their own, else those that have notified us."""
    pids = {rank: pid for pid, rank in living.ranks_of_workers.items()}
    logs = living.spec.worker_logs
    for log, activity in zip(logs, living.activity_of_workers, strict=True):
        yield _Subject(log.rank, log.local_rank, pids.get(log.rank)), activity
    known = {log.rank for log in logs}
    local_ranks = {rank: index for index, rank in enumerate(life.plan.start.local_ranks)}
    for rank in sorted((pids.keys() & life.notified.keys()) - known):
        yield _Subject(rank, local_ranks.get(rank), pids[rank]), None


def _row(subject: _Subject, signs: _Signs, uptime: float, moment: Moment) -> RankRow:
    latest = signs.latest
    return RankRow(
        rank=subject.rank,
        local_rank=subject.local_rank,
        pid=subject.pid,
        program=subject.program,
        state=signs.state,
        uptime_seconds=uptime,
        bytes=None if signs.activity is None else signs.activity.bytes,
        silent_seconds=None if latest is None else _seconds(moment.now - latest),
        last_line="" if signs.activity is None else _text(signs.activity.last_line),
        notify_status="" if signs.notified is None else _text(signs.notified.status),
    )


def _uptime(history: History, pid: int, moment: Moment) -> float:
    if pid in history.lasted:
        return history.lasted[pid]
    return _seconds(moment.elapsed - history.began.get(pid, moment.elapsed))


def _text(text: str) -> str:
    """Harmless, on one line, not long; an escape sequence that was cut stays harmless."""
    return clipped(harmless_text(text[: 8 * MOST_TEXT]).replace("\n", " "), MOST_TEXT)


def _seconds(seconds: float) -> float:
    return round(max(seconds, 0.0), 3)
