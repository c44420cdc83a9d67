"""What holds for the etcd of ``--peers first``; values."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from ascend_supervisor.cluster.rank_table import RankTable
from ascend_supervisor.etcd.access import Endpoint


class Rules(Struct, frozen=True):
    """``job`` is its name in etcd; ``ttl``, ``fence`` and ``timeout`` are the peers', in seconds.

    ``endpoint`` says where etcd is, by the rank table. ``node_rank`` says which server this is.
    Both may raise a Refusal.
    """

    job: str
    ttl: int
    fence: float
    timeout: float
    endpoint: Callable[[RankTable], Endpoint]
    node_rank: Callable[[RankTable], int]
