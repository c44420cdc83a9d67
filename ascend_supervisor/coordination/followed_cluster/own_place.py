"""Where the rank table has this server, or why no generation may start here; pure."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.cluster.identity import Identity, find_entry
from ascend_supervisor.cluster.rank_table import Entry, FoundTable
from ascend_supervisor.coordination.followed_cluster.endings import ended_by
from ascend_supervisor.coordination.followed_cluster.memory import Memory
from ascend_supervisor.coordination.followed_cluster.one_look import CompletedTable, WrongTable
from ascend_supervisor.coordination.followed_cluster.start_obstacles import (
    UNCHANGED_SECONDS,
    Obstacle,
    obstacle,
)
from ascend_supervisor.coordination.followed_cluster.wrong_tables import LASTING_SECONDS
from ascend_supervisor.errors import TableRefused
from ascend_supervisor.restart_policy import Stop


class Place(Struct, frozen=True):
    """A table, and which entry of it is ours."""

    found: FoundTable
    node_rank: int
    entry: Entry


class OwnPlace:
    """Finds it in one table after another, and remembers since when they do not hold us."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._left_out_since: float | None = None

    def size_may_change(self) -> None:
        """What variables say of the job's size holds for its first table only."""
        self._identity = replace(self._identity, size=None)

    def found(self, memory: Memory, now: float) -> Place | Obstacle | Stop:
        """Our place in the table, unless no generation may start.

        Raises TableRefused if the table has not held us for some time.
        """
        if memory.incident is not None and memory.incident.is_final:
            return ended_by(memory.incident)
        if not isinstance(memory.table, CompletedTable):
            self._left_out_since = None
            return obstacle(memory, (), now) or Obstacle("the rank table cannot be read", None)
        table = memory.table.found
        try:
            place = Place(table, *find_entry(table.table, self._identity))
        except TableRefused as refusal:
            return self._left_out(refusal, memory, now)
        self._left_out_since = None
        ranks = (device.rank for device in place.entry.devices)
        return obstacle(memory, ranks, now) or place

    def _left_out(self, refusal: TableRefused, memory: Memory, now: float) -> Obstacle:
        """The table does not hold this server; raises ``refusal`` once that has lasted.

        A new pod may see the table of the pods before it for a while. As long as faults are
        collected, the cluster has not decided who takes part.
        """
        if memory.reset.is_flushing and (held := obstacle(memory, (), now)):
            self._left_out_since = None
            return held
        since = self._left_out_since = now if self._left_out_since is None else self._left_out_since
        limit = LASTING_SECONDS if memory.running else UNCHANGED_SECONDS
        if now - since >= limit:
            raise refusal
        return Obstacle(f"the rank table does not hold this server: {refusal}", limit, ends=True)


def check_table(memory: Memory, now: float) -> None:
    """Raises TableRefused if the table that is waited for has been wrong for some time."""
    table, since = memory.table, memory.wrong_since
    if not isinstance(table, WrongTable) or since is None:
        return
    if now - since >= LASTING_SECONDS:
        raise TableRefused(*table.faults)
