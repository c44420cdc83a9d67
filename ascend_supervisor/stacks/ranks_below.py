"""The ranks that a command starts itself, as their environments say. It may block."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.processes import proc
from ascend_supervisor.stacks.kernel_side import family
from ascend_supervisor.stacks.seen import STUCK, Subject

MOST_PROCESSES = 512


class _Told(Struct, frozen=True):
    """What an environment says; the local rank tells a worker from a node with the same number."""

    rank: int
    local_rank: bytes | None


def with_ranks_below(command: Subject) -> tuple[Subject, ...]:
    """The command, and the ranks below it as subjects of their own; raises OSError at EMFILE.

    A process is a rank if its environment names one (RANK_ID, RANK) and its parent's does not name
    the same. Of several such processes with the same rank the first one counts.
    """
    if command.pid is None or not command.leads_ranks:
        return (command,)
    pids = _ranks_below(command.pid)
    others = frozenset(pids.values())
    found = [
        replace(command, name=f"rank {rank}", rank=rank, pid=pid, others=others - {pid})
        for rank, pid in sorted(pids.items())
    ]
    return (*found, replace(command, others=others))


def _ranks_below(command: int) -> dict[int, int]:
    """Their pids, by rank."""
    below, _ = family(command, (), MOST_PROCESSES)
    told = {pid: _told(pid) for pid in below}
    found: dict[int, int] = {}
    for pid in below[1:]:
        named = told[pid]
        if named is not None and told.get(proc.parent(pid) or 0) != named:
            found.setdefault(named.rank, pid)
    return found


def _told(pid: int) -> _Told | None:
    stat = proc.stat(pid)
    if stat is None or stat.is_dead or stat.state == STUCK:  # its environment may not be readable
        return None
    environ = proc.environ(pid)
    rank = environ.get(b"RANK_ID") or environ.get(b"RANK") or b""
    return _Told(int(rank), environ.get(b"LOCAL_RANK")) if rank.isdigit() else None
