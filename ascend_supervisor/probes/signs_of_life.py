"""Who can give signs of life in a generation: what it writes and what it notifies; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from msgspec import Struct

from ascend_supervisor.life import Life, Living, Notified
from ascend_supervisor.output.last_lines import Activity
from ascend_supervisor.untrusted_text import harmless_text

LINE_CHARACTERS = 200
"""How much of a last line is told."""


class Voice(Struct, frozen=True):
    """A rank, or a program through which its ``ranks`` speak (empty: they are unknown).

    ``activities`` are those of all its output, at least one.
    """

    name: str
    ranks: tuple[int, ...]
    activities: tuple[Activity, ...]
    notified: tuple[Notified, ...] = ()
    has_ended: bool = False

    @property
    def heard_at(self) -> float:
        """Its last sign of life, in seconds of the clock; without any, just before its start."""
        written = (activity.spoke_at for activity in self.activities)
        return max((*written, *(one.heard_at for one in self.notified)))

    @property
    def talked(self) -> float:
        """For how many seconds it has written, from the first time to its last sign of life."""
        begun = [one.first_at for one in self.activities if one.first_at is not None]
        return self.heard_at - min(begun) if begun else 0.0

    @property
    def has_been_heard(self) -> bool:
        return bool(self.notified) or any(activity.bytes for activity in self.activities)

    @property
    def is_up(self) -> bool:
        """Whether it has notified that its start is over."""
        return any(
            one.ready_at is not None or one.watchdog_at is not None or one.is_stopping
            for one in self.notified
        )

    @property
    def extended_until(self) -> float:
        """No limit of it passes before this moment."""
        return max((one.extended_until for one in self.notified), default=0.0)

    @property
    def last_line(self) -> str:
        """The last line that was read of it, else its last STATUS; harmless to show."""
        spoken = sorted(self.activities, key=lambda one: one.spoke_at, reverse=True)
        lines = (*(one.last_line for one in spoken), *(one.status for one in self.notified))
        return harmless_text(next(filter(None, lines), ""))[:LINE_CHARACTERS]


class Voices(Struct, frozen=True):
    """Those of the significant processes; schedulers and servers of parameters do not count.

    ``outputs`` has one for each output, also of ranks that have ended; ``ranks`` has the ranks that
    are known to live, one by one. A program whose ranks are not known yet is in both.
    """

    outputs: tuple[Voice, ...]
    ranks: tuple[Voice, ...]


def voices(life: Life, gone: Collection[int]) -> Voices:
    """The voices now; ``gone`` are pids of a launcher's workers that have ended."""
    speaking = [one for one in life.processes if one.spec.significant and one.spec.speaks_for_ranks]
    return Voices(
        tuple(voice for living in speaking for voice in _outputs(living, life, gone)),
        tuple(
            voice
            for living in speaking
            if not living.activity.has_ended
            for voice in _ranks(living, life, gone)
        ),
    )


def _outputs(living: Living, life: Life, gone: Collection[int]) -> Iterator[Voice]:
    known = _lives_by_rank(living, gone)
    has_ended = living.activity.has_ended
    outlives_workers = 0 < living.spec.workers <= len(known) and not any(known.values())
    if outlives_workers and not has_ended and life.plan.start.holds_all_ranks:
        yield _launcher(living)
    elif not living.spec.worker_logs:
        yield _whole(living, life, has_ended=has_ended or outlives_workers)
    for log in living.spec.worker_logs:
        has_ended = living.activity.has_ended or not known.get(log.rank, True)
        yield _rank(log.rank, living, life, has_ended=has_ended)


def _ranks(living: Living, life: Life, gone: Collection[int]) -> Iterator[Voice]:
    """A launcher's ranks one by one, as far as their processes are known; else all together.

    Of a rank that is known by its messages only, nobody would see that it has ended.
    """
    known = _lives_by_rank(living, gone)
    if living.spec.rank is not None or not known:
        yield _whole(living, life)
    for rank in sorted(rank for rank in known if known[rank]):
        yield _rank(rank, living, life)


def _lives_by_rank(living: Living, gone: Collection[int]) -> dict[int, bool]:
    """Whether the workers that were seen live, by rank."""
    return {rank: pid not in gone for pid, rank in living.ranks_of_workers.items()}


def _whole(living: Living, life: Life, *, has_ended: bool = False) -> Voice:
    """The process that we have started, with all that comes through it."""
    spec = living.spec
    ranks = life.plan.start.local_ranks if spec.rank is None else (spec.rank,)
    notified = life.notified if spec.rank is None else {spec.rank}
    return Voice(
        spec.name,
        () if spec.leads_ranks else ranks,
        (living.activity, *living.activity_of_workers),
        tuple(life.notified[rank] for rank in notified if rank in life.notified),
        has_ended,
    )


def _launcher(living: Living) -> Voice:
    """A launcher whose workers have all ended, and which waits for those of no other server."""
    return Voice(living.spec.name, (), (living.activity, *living.activity_of_workers))


def _rank(rank: int, living: Living, life: Life, *, has_ended: bool = False) -> Voice:
    """A rank that a launcher has started; it may have a log of its own."""
    logs = zip(living.spec.worker_logs, living.activity_of_workers, strict=True)
    own = tuple(activity for log, activity in logs if log.rank == rank)
    notified = life.notified.get(rank)
    return Voice(
        f"rank {rank}",
        (rank,),
        own or (living.activity,),
        () if notified is None else (notified,),
        has_ended,
    )
