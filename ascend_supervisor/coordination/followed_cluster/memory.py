"""What was seen of the cluster's files so far, and the incident that they tell of; pure.

The rank table and the reset file tell of one incident, in any order and seconds apart, so there is
one memory of it. Looks change it (``detection``), and so does what happens on this server.
Times are seconds of the clock.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.cluster.rank_table import FoundTable
from ascend_supervisor.cluster.reset_file import ResetFile
from ascend_supervisor.coordination.followed_cluster.incident import Incident
from ascend_supervisor.coordination.followed_cluster.one_look import Stamp, Table, WrongTable

CONFIRMED_SECONDS = 60.0
"""The two files tell of the same incident within this time."""
MOST_RESTARTS, RESTARTS_SECONDS = 10, 3600.0
"""After so many restarts within this time the cluster is unstable."""


class Memory(Struct, frozen=True):
    """What was seen so far, and what was made of it.

    ``table`` is the last news of the table; ``withdrawn_for`` is how long it was seen withdrawn.
    ``running`` is the table (its placement) of the latest generation, empty before the first; that
    was started at ``started_at``, and ``ranks`` are its ranks on this server.
    ``reset_was_there``: the reset file existed at some time, and it is missing since
    ``removed_at``. ``retry_time`` was accepted: it is no news any more. Until ``confirmed_until``
    another one only confirms the last incident, once and as long as no table is written;
    ``confirmed_from`` is the RetryTime before that one. ``reset_from`` is the RetryTime before the
    last one, if only the restart type has told that it is that of a reset. ``restarts`` are the
    times of the incidents after which a generation was started. ``is_judging``: ranks here have
    failed, and wait for the word of the cluster.
    """

    table: Table | None = None
    reset: ResetFile = ResetFile()
    reset_was_missing: bool = False
    reset_was_there: bool = False
    removed_at: float | None = None
    stamp: Stamp | None = None
    written_at: float | None = None
    withdrawn_since: float | None = None
    withdrawn_for: float = 0.0
    refused_since: float | None = None
    running: str = ""
    started_at: float = 0.0
    ranks: frozenset[int] = frozenset()
    retry_time: int = 0
    confirmed_until: float = 0.0
    confirmed_from: int | None = None
    reset_from: int | None = None
    incident: Incident | None = None
    restarts: tuple[float, ...] = ()
    is_judging: bool = False

    @property
    def wrong_since(self) -> float | None:
        """Since when the table that is waited for is wrong; None if it is not."""
        if not isinstance(self.table, WrongTable) or self.refused_since is None:
            return None
        incident = self.incident
        return max(self.refused_since, incident.began) if incident else self.refused_since

    def is_unstable(self, now: float) -> bool:
        """Whether one more restart would be too many."""
        return self.recent_restarts(now) >= MOST_RESTARTS

    def recent_restarts(self, now: float) -> int:
        """How many restarts the cluster has asked for within RESTARTS_SECONDS."""
        return sum(now - at < RESTARTS_SECONDS for at in self.restarts)


def judging(memory: Memory) -> Memory:
    """The memory when a failure here waits for the word of the cluster.

    No rank runs that a hasty verdict could end, so a withdrawn table is believed sooner.
    """
    return replace(memory, is_judging=True)


def with_table_accepted(memory: Memory) -> Memory:
    """The memory when an operator wants the table as it is; not for a pod that is lost later."""
    if memory.incident is None:
        return memory
    return replace(memory, incident=replace(memory.incident, is_table_accepted=True))


def started(
    memory: Memory, found: FoundTable, ranks: Iterable[int], now: float, *, was_told: bool = False
) -> Memory:
    """The memory when a generation starts with ``found``: an incident is over.

    ``was_told``: another server has seen one, whether this one has or not.
    """
    incident = memory.incident
    is_recovered = was_told or incident is not None
    restarts = (*memory.restarts, now) if is_recovered else memory.restarts
    # A first generation may be that of a pod which takes the place of another one.
    unconfirmed = not memory.running or (
        incident.awaits_table and not incident.has_retry_time if incident is not None else was_told
    )
    return replace(
        memory,
        running=found.placement,
        started_at=now,
        ranks=frozenset(ranks),
        confirmed_until=now + CONFIRMED_SECONDS if unconfirmed else 0.0,
        confirmed_from=None,
        incident=None,
        restarts=restarts[-MOST_RESTARTS:],
        is_judging=False,
    )
