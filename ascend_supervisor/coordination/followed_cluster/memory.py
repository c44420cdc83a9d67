"""What was seen of the cluster's files so far, and the incident that they tell of; pure.

The rank table and the reset file tell of one incident, in any order and seconds apart, so there is
one memory of it. Looks change it (``incident_detection``), and so does what happens on this server.
Times are seconds of the clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.cluster.rank_table import FoundTable
from ascend_supervisor.cluster.reset_file import ResetFile
from ascend_supervisor.coordination.followed_cluster.incident import Incident

Stamp = tuple[int, int, int]
"""Device, inode and modification time (ns) of a file."""


class CompletedTable(Struct, frozen=True):
    """A completed table; ``stamp`` None: it came from no file, and never changes."""

    found: FoundTable
    stamp: Stamp | None = None


class WithdrawnTable(Struct, frozen=True):
    """The table itself says that it is not completed.

    ``is_projected``: the file is that of a ConfigMap, so it may long be completed again.
    """

    why: str
    is_projected: bool = False


class WrongTable(Struct, frozen=True):
    """The table says that it is completed, but is wrong."""

    faults: tuple[str, ...]


SeenTable = CompletedTable | WithdrawnTable | WrongTable


class Sight(Struct, frozen=True):
    """What one look at the files has shown; None: no news (missing, half written, no answer).

    ``table`` is what it was, if the file has not changed. ``reset_is_there``: there is such a file,
    whatever it holds; neither this nor ``reset_is_missing``: its file system does not answer.
    ``reset_trouble`` is why it cannot be read, empty if it can.
    """

    table: SeenTable | None = None
    reset: ResetFile | None = None
    reset_is_missing: bool = False
    reset_is_there: bool = False
    reset_trouble: str = ""


CONFIRMED_SECONDS = 60.0
"""The two files tell of the same incident within this time."""
MOST_RESTARTS, RESTARTS_SECONDS = 10, 3600.0
"""After so many restarts within this time the cluster is unstable."""
UNSTABLE = (
    f"the cluster is unstable: it has asked for more than {MOST_RESTARTS} restarts within "
    f"{RESTARTS_SECONDS:g} s"
)


class ClusterMemory(Struct, frozen=True):
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

    ``has_peers``: the servers of the job agree among themselves, and see who is replaced. Then
    another server may have seen an incident before this one: ``answered`` are the values of
    RetryTime after which the job has restarted already. ``started_with`` is the RetryTime at the
    latest start, ``past_reset`` one whose NPUs are still listed here, but were reset before that.
    Until ``owed_until`` the table may be withdrawn because of the incident before the latest start:
    it was not written here since.
    """

    table: SeenTable | None = None
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
    has_peers: bool = False
    answered: frozenset[int] = frozenset()
    started_with: int = 0
    past_reset: int | None = None
    owed_until: float = 0.0

    @property
    def confirmed(self) -> int | None:
        """The RetryTime that belongs to the latest start; None while there is an incident.

        It was seen before that start, even if only a moment before, or has confirmed it since.
        """
        is_answered = bool(self.running) and self.incident is None
        return self.retry_time if is_answered else None

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


def judging(memory: ClusterMemory) -> ClusterMemory:
    """The memory when a failure here waits for the word of the cluster.

    No rank runs that a hasty verdict could end, so a withdrawn table is believed sooner.
    """
    return replace(memory, is_judging=True)


def with_table_accepted(memory: ClusterMemory) -> ClusterMemory:
    """The memory when an operator wants the table as it is; not for a pod that is lost later."""
    if memory.incident is None:
        return memory
    return replace(memory, incident=replace(memory.incident, is_table_accepted=True))


def with_answered(memory: ClusterMemory, answered: frozenset[int]) -> ClusterMemory:
    """The memory when the job has restarted after these values of RetryTime.

    One that is seen here for the first time since our latest start is no incident then, nor are
    NPUs that are listed with it: a server that was ready for that restart has seen their end.
    """
    if memory.owed_until and not answered <= memory.answered:
        memory = replace(memory, owed_until=inf)  # the cluster has spoken: its table will follow
    memory = replace(memory, answered=answered)
    incident, is_new = memory.incident, memory.retry_time != memory.started_with
    if incident is None or not is_new or memory.retry_time not in answered:
        return memory
    if incident.trigger not in {"retry_time", "npu_reset"}:
        return memory
    return with_past_reset(replace(memory, incident=None))


def with_past_reset(memory: ClusterMemory) -> ClusterMemory:
    """The memory when the NPUs that are listed were reset before the latest start of the job."""
    if not memory.reset.is_waiting:
        return memory
    return replace(memory, past_reset=memory.retry_time, reset=memory.reset.without_waiting)


def started(
    memory: ClusterMemory,
    found: FoundTable,
    ranks: Iterable[int],
    now: float,
    *,
    was_told: bool = False,
    was_replaced: bool = False,
) -> ClusterMemory:
    """The memory when a generation starts with ``found``: an incident is over.

    ``was_told``: another server has seen one, whether this one has or not. ``was_replaced``:
    another process has taken the place of a server, so the cluster may tell of that later.
    """
    incident = memory.incident
    is_recovered = was_told or incident is not None
    restarts = (*memory.restarts, now) if is_recovered else memory.restarts
    is_first = not memory.running  # it may be that of a pod which takes the place of another one
    is_expected = is_first or is_recovered or was_replaced
    return replace(
        memory,
        running=found.placement,
        started_at=now,
        started_with=memory.retry_time,
        ranks=frozenset(ranks),
        confirmed_until=now + CONFIRMED_SECONDS if _may_be_confirmed(memory, is_expected) else 0.0,
        confirmed_from=None,
        incident=None,
        restarts=restarts[-MOST_RESTARTS:],
        is_judging=False,
        owed_until=_owed_until(memory, now, is_recovered=is_recovered, is_expected=is_expected),
    )


def _may_be_confirmed(memory: ClusterMemory, is_expected: bool) -> bool:
    """Whether the RetryTime of the incident before this start may come later."""
    incident = memory.incident
    if not memory.running:
        return True
    if incident is not None:
        return incident.awaits_table and not incident.has_retry_time
    return is_expected and not _is_behind(memory)


def _is_behind(memory: ClusterMemory) -> bool:
    """Whether other servers know a RetryTime that is not seen here yet."""
    return any(one > memory.retry_time for one in memory.answered)


def _owed_until(
    memory: ClusterMemory, now: float, *, is_recovered: bool, is_expected: bool
) -> float:
    """How long the table of the incident before this start is expected; 0: it was written."""
    at, is_withdrawn = memory.written_at, isinstance(memory.table, WithdrawnTable)
    is_new = at is not None and at > max(memory.started_at, now - CONFIRMED_SECONDS)
    was_written = is_new and not is_withdrawn and bool(memory.running)  # the first look is none
    is_of_reset = memory.incident is not None and not memory.incident.awaits_table
    if not memory.has_peers or not is_expected or was_written or is_of_reset:
        return 0.0
    return inf if is_recovered or _is_behind(memory) else now + CONFIRMED_SECONDS


FORGOTTEN_SECONDS = 300.0
"""What a reset file has said of NPUs counts for so long after it was removed for good: twice what a
reset takes (150 s). The device plugin removes it when a pod of the job leaves the node, and nobody
tells then how a reset has ended."""


def observed(memory: ClusterMemory, sight: Sight, now: float) -> ClusterMemory:
    """The memory after another look; its incident is that of the looks before."""
    return _with_reset(_with_table(memory, sight.table, now), sight, now)


def _with_table(memory: ClusterMemory, table: SeenTable | None, now: float) -> ClusterMemory:
    match table:
        case None:
            return memory
        case WithdrawnTable():
            since = memory.withdrawn_since
            since = now if since is None else since
            return replace(
                memory,
                table=table,
                written_at=now,
                withdrawn_since=since,
                withdrawn_for=now - since,
                refused_since=None,
            )
        case WrongTable():
            since = memory.refused_since
            since = now if since is None else since
            return replace(memory, table=table, written_at=now, refused_since=since)
        case CompletedTable(stamp=stamp):
            rewritten = not isinstance(memory.table, CompletedTable) or stamp != memory.stamp
            return replace(
                memory,
                table=table,
                stamp=stamp,
                written_at=now if rewritten else memory.written_at,
                owed_until=0.0 if rewritten else memory.owed_until,
                withdrawn_since=None,
                refused_since=None,
            )


def _with_reset(memory: ClusterMemory, sight: Sight, now: float) -> ClusterMemory:
    """A file that comes late tells of nothing new, and one that comes back may begin anew."""
    reset = sight.reset
    memory = _with_removal(memory, sight, now)
    was_there = memory.reset_was_there
    there = was_there or sight.reset_is_there or reset is not None
    memory = replace(memory, reset_was_there=there)
    if reset is None:
        missing = memory.reset_was_missing or sight.reset_is_missing
        return replace(memory, reset_was_missing=missing)
    begins_anew = memory.reset_was_missing and (
        reset.retry_time < memory.retry_time or not was_there
    )
    accepted = reset.retry_time if begins_anew else memory.retry_time
    is_past = reset.is_waiting and reset.retry_time == memory.past_reset
    return replace(
        memory,
        reset=reset.without_waiting if is_past else reset,
        reset_was_missing=False,
        retry_time=accepted,
        past_reset=memory.past_reset if is_past else None,
    )


def _with_removal(memory: ClusterMemory, sight: Sight, now: float) -> ClusterMemory:
    """What was said of NPUs is forgotten in the end; RetryTime is not, because it is a count."""
    if not sight.reset_is_missing:
        is_there = sight.reset_is_there or sight.reset is not None
        return replace(memory, removed_at=None) if is_there else memory
    removed_at = now if memory.removed_at is None else memory.removed_at
    if now - removed_at < FORGOTTEN_SECONDS:
        return replace(memory, removed_at=removed_at)
    kept = ResetFile(retry_time=memory.reset.retry_time)
    return replace(memory, removed_at=removed_at, reset=kept)
