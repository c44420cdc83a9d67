"""What a look at the cluster's files adds to what was seen before; pure."""

from __future__ import annotations

from msgspec.structs import replace

from ascend_supervisor.cluster.reset_file import ResetFile
from ascend_supervisor.coordination.followed_cluster.memory import Memory
from ascend_supervisor.coordination.followed_cluster.one_look import (
    CompletedTable,
    Sight,
    Table,
    WithdrawnTable,
    WrongTable,
)

FORGOTTEN_SECONDS = 300.0
"""What a reset file has said of NPUs counts for so long after it was removed for good: twice what a
reset takes (150 s). The device plugin removes it when a pod of the job leaves the node, and nobody
tells then how a reset has ended."""


def observed(memory: Memory, sight: Sight, now: float) -> Memory:
    """The memory after another look; its incident is that of the looks before."""
    return _with_reset(_with_table(memory, sight.table, now), sight, now)


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
                owed_until=0.0 if rewritten else memory.owed_until,
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
    is_past = reset.is_waiting and reset.retry_time == memory.past_reset
    return replace(
        memory,
        reset=reset.without_waiting if is_past else reset,
        reset_was_missing=False,
        retry_time=accepted,
        past_reset=memory.past_reset if is_past else None,
    )


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
