"""Whose stacks are taken in a generation; pure."""

from __future__ import annotations

from collections.abc import Iterator

from ascend_supervisor.life import Activity, Life, Living
from ascend_supervisor.stacks.seen import Subject


def subjects_of(life: Life) -> tuple[Subject, ...]:
    """Ranks in their order, then processes that serve them; a launcher's workers are ranks."""
    found = [subject for living in life.processes for subject in _subjects(living)]
    return tuple(sorted(found, key=lambda one: (one.rank is None, one.rank or 0)))


def _subjects(living: Living) -> Iterator[Subject]:
    spec = living.spec
    has_ended = living.activity.has_ended
    workers = {} if has_ended else dict(living.ranks_of_workers)
    yield Subject(
        name=spec.name,
        rank=spec.rank,
        pid=None if has_ended else living.pid,
        activity=living.activity,
        log=str(spec.log),
        others=frozenset(workers),
        significant=spec.significant,
        leads_ranks=spec.leads_ranks,
    )
    for pid, rank in workers.items():
        activity, log = _log_of(living, rank)
        yield Subject(f"rank {rank}", rank, pid, activity, log, parent=living.pid)


def _log_of(living: Living, rank: int) -> tuple[Activity, str]:
    """The log that a launcher's worker writes: its own, or its launcher's."""
    logs = zip(living.spec.worker_logs, living.activity_of_workers, strict=False)
    for log, activity in logs:
        if log.rank == rank:
            return activity, str(log.path)
    return living.activity, str(living.spec.log)
