"""What holds for the etcd of ``--peers first``; values."""

from __future__ import annotations

from msgspec import Struct


class Rules(Struct, frozen=True):
    """``job`` is the name of the job in etcd; the times are those of its servers, in seconds."""

    job: str
    ttl: int
    fence: float
    timeout: float
