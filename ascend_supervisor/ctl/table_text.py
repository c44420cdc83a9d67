"""A rank table as ctl prints it for people; pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ascend_supervisor.ctl.columns import facts, table
from ascend_supervisor.untrusted_text import plain

if TYPE_CHECKING:  # spans are printed without the readers of rank tables
    from ascend_supervisor.cluster.rank_table import Entry, RankTable

MOST_ENTRIES = 20
_MOST_SPANS = 8


def table_text(table_read: RankTable) -> str:
    """What the rank table says, entry by entry up to ``MOST_ENTRIES``."""
    named = [
        ("format", table_read.format.value),
        ("world size", table_read.world_size),
        ("servers", table_read.servers),
        ("entries", len(table_read.entries)),
    ]
    shown = table_read.entries[:MOST_ENTRIES]
    rows = [_entry_row(place, entry) for place, entry in enumerate(shown)]
    more = len(table_read.entries) - MOST_ENTRIES
    lines = facts(named)
    if rows:
        lines += ["", *table(("NODE RANK", "SERVER", "POD", "RANKS", "DEVICES"), rows)]
    if more > 0:
        lines.append(f"and {more} more")
    return "".join(f"{line}\n" for line in lines)


def spans(numbers: Iterable[int]) -> str:
    """The numbers, consecutive ones as one span: ``0-7,12``; cut when there are many spans."""
    found: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1][1] + 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    listed = [f"{low}" if low == high else f"{low}-{high}" for low, high in found[:_MOST_SPANS]]
    if len(found) > _MOST_SPANS:
        listed.append("...")
    return ",".join(listed) or "none"


def _entry_row(node_rank: int, entry: Entry) -> tuple[object, ...]:
    names = (None if name is None else plain(name) for name in (entry.server_id, entry.pod_name))
    ranks = spans(device.rank for device in entry.devices)
    return node_rank, *names, ranks, spans(device.device_id for device in entry.devices)
