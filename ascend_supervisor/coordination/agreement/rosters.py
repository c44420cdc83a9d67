"""The roster of a job of many servers in etcd: in blocks, beside ``about``; pure.

A roster changes with a ``run`` only, and then seldom more than a seat of it. So ``about`` holds a
digest in its place, and whoever knows the blocks reads those that have changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256

from msgspec.structs import replace

from ascend_supervisor.coordination.agreement import records
from ascend_supervisor.coordination.agreement.records import (
    About,
    DamagedRecord,
    RosterBlock,
    Seat,
    decode,
    encode,
)

MOST_KNOWN = 4
"""So many rosters are kept decoded: each is shared by all that was read with it."""


def in_blocks(about: About, group: int) -> tuple[About, dict[str, bytes]]:
    """What is put under ``about``, and the blocks of its roster; none for up to ``group`` seats."""
    roster = about.roster
    if len(roster) <= group:
        return replace(about, blocks=0, digest=""), {}
    starts = range(0, len(roster), group)
    blocks = {
        records.roster_key(number): encode(RosterBlock(roster[start : start + group]))
        for number, start in enumerate(starts)
    }
    digest = digest_of(tuple(blocks.values()))
    return replace(about, roster=(), blocks=len(blocks), digest=digest), blocks


def whole(about: About, values: Mapping[str, bytes]) -> About:
    """``about`` as it was put, with the roster that belongs to it; raises DamagedRecord."""
    if not about.blocks:
        return about
    names = tuple(map(records.roster_key, range(about.blocks)))
    missing = next((name for name in names if name not in values), None)
    if missing is not None:
        raise DamagedRecord(missing, b"", "it is missing")
    blocks = tuple(values[name] for name in names)
    if digest_of(blocks) != about.digest:
        raise DamagedRecord(names[0], blocks[0], f"it belongs to another {records.ABOUT_KEY}")
    return replace(about, roster=_joined(blocks))


@lru_cache(maxsize=MOST_KNOWN)
def digest_of(blocks: tuple[bytes, ...]) -> str:
    return sha256(b"".join(blocks)).hexdigest()[:16]


@lru_cache(maxsize=MOST_KNOWN)
def _joined(blocks: tuple[bytes, ...]) -> tuple[Seat, ...]:
    seats: list[Seat] = []
    for number, block in enumerate(blocks):
        seats += decode(records.roster_key(number), block, RosterBlock).seats
    return tuple(seats)
