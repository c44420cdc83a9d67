"""To which process of a generation a sender belongs, by its session and its ancestors; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from ascend_supervisor.life import Life, Living
from ascend_supervisor.settings.values import Method

UNNUMBERED = 0
"""Stands for a command that starts ranks nobody has told us of."""
LONGEST_NUMBER = 9
"""Digits; a rank with more does not exist."""


class Ancestor(Struct, frozen=True):
    """A process of a sender's line: the sender itself, its parent, and so on."""

    pid: int
    session: int


class Lineage(Struct, frozen=True):
    """``line`` begins with the sender. ``leads_away`` is true if no process in it is below us."""

    line: tuple[Ancestor, ...]
    leads_away: bool


class OfRank(Struct, frozen=True):
    """The sender is this rank, or descends from it."""

    rank: int


class OfLauncher(Struct, frozen=True):
    """It is below a process that starts ranks: its variables say which one it belongs to.

    ``otherwise`` is the rank if they name none: that of a command that starts only one.
    """

    otherwise: int | None = None


class Orphan(Struct, frozen=True):
    """Its ancestors have ended: it is ours if it has our mark, and its variables name the rank."""


class Stranger(Struct, frozen=True):
    """No rank, and nothing that a rank has started."""


Kinship = OfRank | OfLauncher | Orphan | Stranger


def kinship(lineage: Lineage, life: Life) -> Kinship:
    """The nearest ancestor decides. What an ended process has left belongs to nobody."""
    living = [process for process in life.processes if not process.activity.has_ended]
    workers = {pid: rank for one in living for pid, rank in one.ranks_of_workers.items()}
    started = {one.pid: one for one in living}
    for ancestor in lineage.line:
        for number in (ancestor.pid, ancestor.session):
            if number in workers:
                return OfRank(workers[number])
            if number in started:
                return _of_process(started[number], life.plan.start.local_ranks)
    return Stranger() if lineage.leads_away else Orphan()


def _of_process(process: Living, ranks: Sequence[int]) -> Kinship:
    spec = process.spec
    if spec.rank is not None:
        return OfRank(spec.rank)
    if not spec.significant:
        return Stranger()
    if not spec.leads_ranks or len(ranks) > 1:
        return OfLauncher()
    return OfLauncher(ranks[0] if ranks else UNNUMBERED)


def rank_names(method: Method) -> Sequence[bytes]:
    """The variables that may hold a rank, the one that counts first.

    mpirun sets only its own and leaves those of the node; all other launchers set the first two.
    """
    usual = (b"RANK_ID", b"RANK")
    of_mpi = (b"OMPI_COMM_WORLD_RANK",)
    return of_mpi + usual if method == "mpirun" else usual + of_mpi


def rank_in(
    environ: Mapping[bytes, bytes],
    names: Sequence[bytes],
    ranks: Sequence[int],
    otherwise: int | None = None,
) -> int | None:
    """The rank that the variables of a process name, if it is one of ``ranks`` (empty: unknown).

    ``otherwise`` if they name none.
    """
    told = next((environ[name] for name in names if environ.get(name)), None)
    if told is None:
        return otherwise
    if not told.isdigit() or len(told) > LONGEST_NUMBER:
        return None
    return int(told) if not ranks or int(told) in ranks else None
