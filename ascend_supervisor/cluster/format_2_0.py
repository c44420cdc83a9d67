"""Reads and checks a rank table of 2.0 (Atlas A5), down to plain rows; pure.

Its ``rank_list`` decides. It names no servers; a ``server_list`` beside it, as ClusterD writes one,
only tells which server holds which ranks, and under which addresses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ascend_supervisor.cluster.formats import (
    Listed,
    Row,
    check_contiguous,
    check_count,
    listed_server,
)
from ascend_supervisor.files.untrusted_json import Cursor, Misfit, Once

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

VERSION = "2.0"


def is_2_0(top: Cursor) -> bool:
    """Whether ``rank_list`` decides; a ``server_list`` beside it counts unless it says 2.0."""
    if top.get("rank_list") is None:
        return False
    return top.get("server_list") is None or top.get("version") == VERSION


def is_whole(top: Cursor) -> bool:
    """Whether the table lists as many ranks as it states; it is completed even without status."""
    listed = top.get("rank_list")
    if not is_2_0(top) or not isinstance(listed, list) or not listed:
        return False
    try:
        check_count(top, "rank_count", len(listed))
    except Misfit:
        return False
    return True


def a5(top: Cursor) -> Iterator[Listed]:
    listed = top.elements("rank_list")
    check_count(top, "rank_count", len(listed))
    ranks: Once[int] = Once("rank_id")
    for at in listed:
        ranks.take(at.integer("rank_id", least=0), at)
    check_contiguous(ranks)
    in_order = [ranks.places[rank] for rank in range(len(ranks.places))]
    local_ids = [at.integer("local_id", least=0) for at in in_order]
    rows: list[Row] = [
        (rank, at.integer("device_id", least=0), None) for rank, at in enumerate(in_order)
    ]
    yield from _by_server(top, rows) or _by_local_id(rows, local_ids)


def _by_local_id(rows: Sequence[Row], local_ids: Sequence[int]) -> Iterator[Listed]:
    """A new server begins where local_id does not rise from rank to rank."""
    begin = 0
    for rank in range(1, len(rows) + 1):
        if rank == len(rows) or local_ids[rank] <= local_ids[rank - 1]:
            yield Listed(tuple(rows[begin:rank]))
            begin = rank


def _by_server(top: Cursor, rows: Sequence[Row]) -> list[Listed]:
    """The servers if ``server_list`` tells where each rank is, else none; HCCL does not read it."""
    if top.get("server_list") is None:
        return []
    left = set(range(len(rows)))
    found = []
    try:
        for server in top.elements("server_list"):
            ranks = sorted(at.integer("rank_id", least=0) for at in server.elements("device"))
            if len(set(ranks)) < len(ranks) or not left.issuperset(ranks):
                return []
            left.difference_update(ranks)
            own = tuple(rows[rank] for rank in ranks)
            found.append(listed_server(server, own, server.optional_name("server_id")))
    except Misfit:
        return []
    return [] if left else found
