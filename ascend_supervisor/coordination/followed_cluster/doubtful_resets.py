"""A reset file that cannot be read, or names ranks of another job: what is told of it; pure.

Neither ends a rank: what is no news of this job changes nothing.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.cluster.reset_file import ResetFile
from ascend_supervisor.coordination.followed_cluster.faulty_npus import MOST_NAMED
from ascend_supervisor.coordination.followed_cluster.one_look import Sight


class ResetDoubts(Struct, frozen=True):
    """The ``reset`` file as it was read last, why it cannot be read now, and what was ``told``.

    ``world_size`` is how many ranks the job had at the last look.
    """

    reset: ResetFile | None = None
    world_size: int = 0
    trouble: str = ""
    told: frozenset[str] = frozenset()


def seen_for_job(
    doubts: ResetDoubts, sight: Sight, world_size: int
) -> tuple[ResetDoubts, Sight, str | None]:
    """What a look has shown of a job with so many ranks (0: not known yet), and what is told now.

    A file that was read before the size was known counts again.
    """
    is_resized = sight.reset_is_there and world_size != doubts.world_size
    reset = sight.reset or (doubts.reset if is_resized else None)
    strangers = _strangers(reset, world_size)
    lasting = sight.reset_trouble if sight.reset_trouble == doubts.trouble else ""
    told = _unreadable(lasting) if lasting else _named(strangers, world_size)
    kept = None if sight.reset_is_missing else sight.reset or doubts.reset
    after = replace(doubts, reset=kept, world_size=world_size, trouble=sight.reset_trouble)
    if reset is not None:
        ours = tuple(listed for listed in reset.ranks if listed.rank not in strangers)
        sight = replace(sight, reset=replace(reset, ranks=ours))
    if not told or told in doubts.told:
        return after, sight, None
    return replace(after, told=doubts.told | {told}), sight, told


def _strangers(reset: ResetFile | None, world_size: int) -> list[int]:
    if reset is None or not world_size:
        return []
    return sorted({listed.rank for listed in reset.ranks if listed.rank >= world_size})


def _unreadable(trouble: str) -> str:
    return (
        f"the reset file cannot be read: {trouble}; it is ignored until it can, so correct what is "
        "mounted there, or name another one with --reset-file"
    )


def _named(strangers: list[int], world_size: int) -> str:
    if not strangers:
        return ""
    named = ", ".join(map(str, strangers[:MOST_NAMED]))
    more = f" and {len(strangers) - MOST_NAMED} more" if len(strangers) > MOST_NAMED else ""
    which = "rank" if len(strangers) == 1 else "ranks"
    return (
        f"the reset file names {which} {named}{more}, but this job has ranks 0 to "
        f"{world_size - 1}: these entries are ignored; see whether the file of another job is "
        "mounted"
    )
