"""Whether the ranks do their work, as a readiness probe asks it."""

from __future__ import annotations

from ascend_supervisor.control.protocol import Readiness
from ascend_supervisor.life import Life
from ascend_supervisor.reporters.state_file import Status

MOST_NAMED = 8
"""How many ranks a sentence names."""


def readiness(status: Status, life: Life | None, *, must_notify: bool) -> Readiness:
    """``life`` is the generation that runs; ``must_notify``: its ranks are to say so themselves.

    Ranks that are started from another server, by mpirun, cannot: they get no NOTIFY_SOCKET.
    """
    obstacle = _obstacle(status, life, must_notify=must_notify)
    if obstacle is not None:
        return Readiness(ready=False, reason=obstacle)
    return Readiness(ready=True, reason=f"generation {status.generation} runs")


def _obstacle(status: Status, life: Life | None, *, must_notify: bool) -> str | None:
    if life is None or status.phase != "running":
        return f"the job is {status.phase}" + (f": {status.why}" if status.why else "")
    if life.is_ending:
        return f"generation {life.generation} is being ended"
    missing = len(life.plan.specs) - len(life.processes)
    if missing:
        return f"{missing} of {len(life.plan.specs)} processes have not been started"
    ended = [living.spec.name for living in life.processes if living.activity.has_ended]
    if ended:
        return f"{ended[0]} has ended"
    silent = [rank for rank in life.plan.start.local_ranks if not _has_notified(life, rank)]
    starts_ranks = any(one.spec.speaks_for_ranks for one in life.processes)
    if must_notify and starts_ranks and silent:
        return f"{_ranks(silent)} sent neither READY=1 nor WATCHDOG=1"
    return None


def _has_notified(life: Life, rank: int) -> bool:
    told = life.notified.get(rank)
    return told is not None and (told.ready_at is not None or told.watchdog_at is not None)


def _ranks(ranks: list[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]} has"
    if len(ranks) > MOST_NAMED:
        return f"{len(ranks)} ranks, rank {ranks[0]} first, have"
    return f"ranks {', '.join(map(str, ranks))} have"
