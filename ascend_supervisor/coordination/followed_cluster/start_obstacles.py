"""Why no generation may start while the cluster recovers; pure."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from ascend_supervisor.cluster.reset_file import ResetFile
from ascend_supervisor.coordination.followed_cluster.faulty_npus import (
    faulty,
    not_reset,
    unrecovered,
    with_status,
)
from ascend_supervisor.coordination.followed_cluster.incident import Incident
from ascend_supervisor.coordination.followed_cluster.memory import Memory
from ascend_supervisor.coordination.followed_cluster.observation import FORGOTTEN_SECONDS
from ascend_supervisor.coordination.followed_cluster.one_look import (
    CompletedTable,
    WithdrawnTable,
    WrongTable,
)
from ascend_supervisor.restart_policy import CONTROL_PROGRAM

UNCHANGED_SECONDS = 120.0
"""A table that nobody has written for so long after an incident is used as it is."""
MOST_SECONDS = 900.0
"""How long a start waits for the cluster: its own limit for a graceful end (grace-over-time)."""


class Obstacle(Struct, frozen=True):
    """Why no generation may start yet.

    The cluster is given up after ``limit`` seconds (None: that of the rank table), unless the
    obstacle ``ends`` by itself. ``by_hand``: an operator may end it, too.
    """

    reason: str
    limit: float | None = MOST_SECONDS
    ends: bool = False
    by_hand: bool = False


def obstacle(memory: Memory, ranks: Iterable[int], now: float) -> Obstacle | None:
    """Why no generation with ``ranks`` may start here at the moment."""
    of_reset = _obstacle_of_reset(memory.reset, frozenset(ranks))
    if of_reset is None:
        return _obstacle_of_table(memory, now)
    return of_reset if memory.removed_at is None else _until_forgotten(of_reset)


def _until_forgotten(told: Obstacle) -> Obstacle:
    """What a file said that was removed since."""
    reason = (
        f"{told.reason}; the file was removed, and what it said counts for "
        f"{FORGOTTEN_SECONDS:g} s more"
    )
    return Obstacle(reason, FORGOTTEN_SECONDS, ends=True)


def is_late(memory: Memory, ranks: Iterable[int]) -> bool:
    """Whether only the table of an incident that is over is in the way of a start.

    The others have seen it completed, and start; here it is still withdrawn.
    """
    is_withdrawn = memory.has_peers and isinstance(memory.table, WithdrawnTable)
    return is_withdrawn and _obstacle_of_reset(memory.reset, frozenset(ranks)) is None


def is_accepted_unchanged(memory: Memory) -> bool:
    """Whether the table is used although it was not written since the incident began."""
    return memory.incident is not None and not _is_newer(memory, memory.incident)


def _obstacle_of_reset(reset: ResetFile, ranks: frozenset[int]) -> Obstacle | None:
    if reset.graceful_exit:
        return Obstacle("it asks for a graceful end (GracefulExit in the reset file)")
    if reset.is_flushing:
        return Obstacle("it collects faults (FaultFlushing in the reset file)")
    if ours := [rank for rank in with_status(reset, "fault") if rank in ranks]:
        return Obstacle(faulty(reset, ours))
    if failed := with_status(reset, "failed"):
        return Obstacle(not_reset(reset, failed))
    if waiting := with_status(reset, "unrecovered"):
        return Obstacle(unrecovered(reset, waiting))
    return None


def _obstacle_of_table(memory: Memory, now: float) -> Obstacle | None:
    match memory.table:
        case None:
            return Obstacle("the rank table cannot be read", None)
        case WithdrawnTable(why=why):
            return Obstacle(f"the rank table is not completed: {why}", None)
        case WrongTable(faults=faults):
            return Obstacle(f"the rank table is wrong: {'; '.join(faults)}", None)
        case CompletedTable():
            incident = memory.incident
            if incident is None or _is_newer(memory, incident):
                return None
            if incident.is_table_accepted or now - incident.began >= UNCHANGED_SECONDS:
                return None
            reason = (
                "no new rank table since the pods were replaced; the old one is used after "
                f"{UNCHANGED_SECONDS:g} s, or at once with {CONTROL_PROGRAM} restart"
            )
            return Obstacle(reason, UNCHANGED_SECONDS, ends=True, by_hand=True)


def _is_newer(memory: Memory, incident: Incident) -> bool:
    if not incident.awaits_table or not isinstance(memory.table, CompletedTable):
        return True
    if memory.table.stamp is None or memory.table.found.placement != incident.before:
        return True
    return memory.written_at is not None and memory.written_at > incident.since
