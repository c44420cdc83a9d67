"""A rank table that becomes wrong while the ranks run: what is told of it; pure.

Nothing else follows from it: the ranks run on with their copy of the table before.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.coordination.followed_cluster.memory import Memory
from ascend_supervisor.coordination.followed_cluster.one_look import WrongTable

LASTING_SECONDS = 10.0
"""A table that has been wrong for so long, also since an incident began, is no write under way."""
MOST_REMEMBERED = 16

Faults = tuple[str, ...]


class Doubts(Struct, frozen=True):
    """The ``faults`` that the table has ``since`` a moment, and those that were ``told``."""

    faults: Faults = ()
    since: float = 0.0
    told: tuple[Faults, ...] = ()


def doubts_after(doubts: Doubts, memory: Memory, now: float) -> Doubts:
    """The doubts after a look at the table; what is new in ``told`` is to be told now.

    The same faults are told once, however often they come back. While the cluster recovers, a wrong
    table is waited for, and refused; that is told elsewhere.
    """
    runs = memory.running and memory.incident is None
    faults = memory.table.faults if runs and isinstance(memory.table, WrongTable) else ()
    if faults != doubts.faults:
        doubts = replace(doubts, faults=faults, since=now)
    if not faults or faults in doubts.told or now - doubts.since < LASTING_SECONDS:
        return doubts
    return replace(doubts, told=(*doubts.told, faults)[-MOST_REMEMBERED:])


def told_now(before: Doubts, after: Doubts) -> str | None:
    """What is to be told, as a sentence; None if nothing is new."""
    if before.told == after.told:
        return None
    return (
        f"the cluster has written a wrong table: {'; '.join(after.told[-1])}; the ranks run on "
        "with their copy of the one before, but no rank can start with this one: correct what "
        "writes it"
    )
