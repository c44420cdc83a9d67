"""What was seen of the cluster's files so far, and the incident that they tell of; pure.

The rank table and the reset file tell of one incident, in any order and seconds apart, so there is
one memory of it. The rules are those of MindCluster's rescheduling; times are seconds of the clock.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.cluster.rank_table import FoundTable
from ascend_supervisor.cluster.reset_file import ResetFile
from ascend_supervisor.coordination.faulty_npus import faulty, not_reset, unrecovered, with_status
from ascend_supervisor.coordination.incident import GRAVITY, Incident
from ascend_supervisor.coordination.sights import (
    CompletedTable,
    Sight,
    Stamp,
    Table,
    WithdrawnTable,
    WrongTable,
)
from ascend_supervisor.events.cluster import Trigger

WITHDRAWN_SECONDS = 5.0
"""A table that is not completed for less, then is the same again, is no incident: an Ascend
Operator that restarts writes it so."""
WITHDRAWN_PROJECTED_SECONDS = 120.0
"""The same for a table in a ConfigMap. kubelet copies it when it syncs the pod: every 60 s
(syncFrequency) and up to half of that later (workerResyncIntervalJitterFactor), from a cache that
is some seconds behind. So what held for a moment is shown for up to 90 s and a little more."""
CONFIRMED_SECONDS = 60.0
"""The two files tell of the same incident within this time."""
TOGETHER_SECONDS = 5.0
"""A table that was written this shortly before RetryTime changed belongs to that change, even if a
generation has begun with it meanwhile: between two pods that are lost, pods are scheduled and
started."""
FORGOTTEN_SECONDS = 300.0
"""What a reset file has said of NPUs counts for so long after it was removed for good: twice what a
reset takes (150 s). The device plugin removes it when a pod of the job leaves the node, and nobody
tells then how a reset has ended."""
MOST_RESTARTS, RESTARTS_SECONDS = 10, 3600.0
"""After so many restarts within this time the cluster is unstable."""


class Memory(Struct, frozen=True):
    """What was seen so far, and what was made of it.

    ``table`` is the last news of the table; ``withdrawn_for`` is how long it was seen withdrawn.
    ``running`` is the table (its essence) of the latest generation, empty before the first; it was
    started at ``started_at``, and ``ranks`` are its ranks on this server. ``reset_was_there``: the
    reset file existed at some time, and it is missing since ``removed_at``. ``retry_time`` was
    accepted: it is no news any more. Until ``confirmed_until`` another one only confirms the last
    incident. ``restarts`` are the times of the incidents after which a generation was started.
    ``is_judging``: ranks here have failed, and wait for the word of the cluster.
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


# What is seen.


def noticed(memory: Memory, sight: Sight, now: float) -> Memory:
    """The memory after another look; without news, too: some things matter once they last."""
    seen = _with_reset(_with_table(memory, sight.table, now), sight, now)
    if not seen.running:  # nothing runs that an incident could end
        return replace(seen, retry_time=seen.reset.retry_time)
    return _with_gravest(_with_retry_time(seen, now), now)


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


def started(memory: Memory, found: FoundTable, ranks: Iterable[int], now: float) -> Memory:
    """The memory when a generation starts with ``found``: an incident is over."""
    incident = memory.incident
    restarts = memory.restarts if incident is None else (*memory.restarts, now)
    # A first generation may be that of a pod which takes the place of another one.
    unconfirmed = not memory.running or (
        incident is not None and incident.awaits_table and not incident.has_retry_time
    )
    return replace(
        memory,
        running=found.essence,
        started_at=now,
        ranks=frozenset(ranks),
        confirmed_until=now + CONFIRMED_SECONDS if unconfirmed else 0.0,
        incident=None,
        restarts=restarts[-MOST_RESTARTS:],
        is_judging=False,
    )


def _with_table(memory: Memory, table: Table | None, now: float) -> Memory:
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
                withdrawn_since=None,
                refused_since=None,
            )


def _with_reset(memory: Memory, sight: Sight, now: float) -> Memory:
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
    return replace(memory, reset=reset, reset_was_missing=False, retry_time=accepted)


def _with_removal(memory: Memory, sight: Sight, now: float) -> Memory:
    """What was said of NPUs is forgotten in the end; RetryTime is not, because it is a count."""
    if not sight.reset_is_missing:
        is_there = sight.reset_is_there or sight.reset is not None
        return replace(memory, removed_at=None) if is_there else memory
    removed_at = now if memory.removed_at is None else memory.removed_at
    if now - removed_at < FORGOTTEN_SECONDS:
        return replace(memory, removed_at=removed_at)
    kept = ResetFile(retry_time=memory.reset.retry_time)
    return replace(memory, removed_at=removed_at, reset=kept)


# What is made of it.


def _with_retry_time(memory: Memory, now: float) -> Memory:
    """A controller that restarts may count from 0 again, so any difference is news."""
    before, after = memory.retry_time, memory.reset.retry_time
    if before == after:
        return memory
    memory = replace(memory, retry_time=after)
    if memory.incident is not None:
        return replace(memory, incident=_confirmed(memory, memory.incident, now))
    written = memory.written_at is not None and memory.written_at > memory.started_at
    if now < memory.confirmed_until and not written:
        return replace(memory, confirmed_until=0.0)
    reason = f"RetryTime in the reset file went from {before} to {after}: pods were replaced"
    new = _incident(memory, "retry_time", reason, now)
    return replace(memory, incident=replace(new, has_retry_time=True))


def _confirmed(memory: Memory, incident: Incident, now: float) -> Incident:
    # Nobody has waited for a table yet where an NPU was reset.
    began = incident.began if incident.awaits_table else now
    told = replace(incident, has_retry_time=True, awaits_table=True, began=began)
    if not incident.has_retry_time:
        return told
    # The second one means another pod, which has a table of its own.
    before = _essence(memory.table) or incident.before
    since = now - TOGETHER_SECONDS
    return replace(told, began=now, since=since, before=before, is_table_accepted=False)


def _with_gravest(memory: Memory, now: float) -> Memory:
    found = _from_reset(memory) or _from_table(memory)
    if found is None:
        return memory
    trigger, reason = found
    incident = memory.incident or _incident(memory, trigger, reason, now)
    if GRAVITY[trigger] > GRAVITY[incident.trigger]:
        incident = replace(incident, trigger=trigger, reason=reason)
    listed = incident.listed | _listed_here(memory)
    return replace(memory, incident=replace(incident, listed=listed))


def _from_reset(memory: Memory) -> tuple[Trigger, str] | None:
    reset, ours = memory.reset, memory.ranks
    if reset.graceful_exit:
        return "graceful_exit", "it asks for a graceful end (GracefulExit in the reset file)"
    if failed := with_status(reset, "failed"):
        return "npu_failed", not_reset(reset, failed)
    if bad := [rank for rank in with_status(reset, "fault") if rank in ours]:
        return "npu_fault", faulty(reset, bad)
    if waiting := with_status(reset, "unrecovered"):
        return "npu_reset", unrecovered(reset, waiting)
    return None


def _from_table(memory: Memory) -> tuple[Trigger, str] | None:
    table = memory.table
    if isinstance(table, WithdrawnTable):
        is_late = table.is_projected and not memory.is_judging
        limit = WITHDRAWN_PROJECTED_SECONDS if is_late else WITHDRAWN_SECONDS
        if memory.withdrawn_for < limit:
            return None
        lasted = f"for {limit:g} s"
        return "table_withdrawn", f"the rank table has not been completed {lasted}: {table.why}"
    if isinstance(table, CompletedTable) and table.found.essence != memory.running:
        return "table_changed", "the rank table has changed"
    return None


def _incident(memory: Memory, trigger: Trigger, reason: str, now: float) -> Incident:
    """An incident that begins now; the table may have told of it a little earlier."""
    latest = min(memory.started_at, now - TOGETHER_SECONDS)
    return Incident(
        trigger,
        reason,
        began=now,
        before=memory.running,
        since=max(latest, now - CONFIRMED_SECONDS),
        awaits_table=trigger in {"retry_time", "table_changed", "table_withdrawn"},
    )


def _essence(table: Table | None) -> str:
    return table.found.essence if isinstance(table, CompletedTable) else ""


def _listed_here(memory: Memory) -> frozenset[int]:
    return memory.ranks.intersection(with_status(memory.reset, "unrecovered"))
