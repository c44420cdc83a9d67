"""Why no generation may start: the cluster recovers, or has no place for this server; pure."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from ascend_supervisor.cluster.reset_file import ResetFile
from ascend_supervisor.coordination.followed_cluster.incident import Incident
from ascend_supervisor.coordination.followed_cluster.incident_detection import (
    LASTING_SECONDS,
    faulty,
    not_reset,
    unrecovered,
    with_status,
)
from ascend_supervisor.coordination.followed_cluster.memory import (
    FORGOTTEN_SECONDS,
    ClusterMemory,
    CompletedTable,
    WithdrawnTable,
    WrongTable,
)
from ascend_supervisor.errors import TableRefused
from ascend_supervisor.restart_policy import CONTROL_PROGRAM

UNCHANGED_SECONDS = 120.0
"""A table that nobody has written for so long after an incident is used as it is."""
MOST_SECONDS = 900.0
"""How long a start waits for the cluster: its own limit for a graceful end (grace-over-time)."""


class StartObstacle(Struct, frozen=True):
    """Why no generation may start yet.

    The cluster is given up after ``limit`` seconds (None: that of the rank table), unless the
    obstacle ``ends`` by itself. ``by_hand``: an operator may end it, too.
    """

    reason: str
    limit: float | None = MOST_SECONDS
    ends: bool = False
    by_hand: bool = False


def obstacle(memory: ClusterMemory, ranks: Iterable[int], now: float) -> StartObstacle | None:
    """Why no generation with ``ranks`` may start here at the moment."""
    of_reset = _obstacle_of_reset(memory.reset, frozenset(ranks))
    if of_reset is None:
        return _obstacle_of_table(memory, now)
    return of_reset if memory.removed_at is None else _until_forgotten(of_reset)


def _until_forgotten(told: StartObstacle) -> StartObstacle:
    """What a file said that was removed since."""
    reason = (
        f"{told.reason}; the file was removed, and what it said counts for "
        f"{FORGOTTEN_SECONDS:g} s more"
    )
    return StartObstacle(reason, FORGOTTEN_SECONDS, ends=True)


def is_late(memory: ClusterMemory, ranks: Iterable[int]) -> bool:
    """Whether only the table of an incident that is over is in the way of a start.

    The others have seen it completed, and start; here it is still withdrawn.
    """
    is_withdrawn = memory.has_peers and isinstance(memory.table, WithdrawnTable)
    return is_withdrawn and _obstacle_of_reset(memory.reset, frozenset(ranks)) is None


def is_accepted_unchanged(memory: ClusterMemory) -> bool:
    """Whether the table is used although it was not written since the incident began."""
    return memory.incident is not None and not _is_newer(memory, memory.incident)


def _obstacle_of_reset(reset: ResetFile, ranks: frozenset[int]) -> StartObstacle | None:
    if reset.graceful_exit:
        return StartObstacle("it asks for a graceful end (GracefulExit in the reset file)")
    if reset.is_flushing:
        return StartObstacle("it collects faults (FaultFlushing in the reset file)")
    if ours := [rank for rank in with_status(reset, "fault") if rank in ranks]:
        return StartObstacle(faulty(reset, ours))
    if failed := with_status(reset, "failed"):
        return StartObstacle(not_reset(reset, failed))
    if waiting := with_status(reset, "unrecovered"):
        return StartObstacle(unrecovered(reset, waiting))
    return None


def _obstacle_of_table(memory: ClusterMemory, now: float) -> StartObstacle | None:
    match memory.table:
        case None:
            return StartObstacle("the rank table cannot be read", None)
        case WithdrawnTable(why=why):
            return StartObstacle(f"the rank table is not completed: {why}", None)
        case WrongTable(faults=faults):
            return StartObstacle(f"the rank table is wrong: {'; '.join(faults)}", None)
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
            return StartObstacle(reason, UNCHANGED_SECONDS, ends=True, by_hand=True)


def _is_newer(memory: ClusterMemory, incident: Incident) -> bool:
    if not incident.awaits_table or not isinstance(memory.table, CompletedTable):
        return True
    if memory.table.stamp is None or memory.table.found.placement != incident.before:
        return True
    return memory.written_at is not None and memory.written_at > incident.since


def check_table(memory: ClusterMemory, now: float) -> None:
    """Raises TableRefused if the table that is waited for has been wrong for some time."""
    table, since = memory.table, memory.wrong_since
    if not isinstance(table, WrongTable) or since is None:
        return
    if now - since >= LASTING_SECONDS:
        raise TableRefused(*table.faults)
