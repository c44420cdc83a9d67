"""The servers of a job that agree (--peers), as a table for people; pure."""

from __future__ import annotations

from ascend_supervisor.control.status_answer import PeersStatus
from ascend_supervisor.ctl.columns import table
from ascend_supervisor.ctl.quantities import duration
from ascend_supervisor.untrusted_text import printable

HEADS = ("SERVER", "HOST", "PHASE", "SINCE", "LAST WORD")
STALE_SECONDS = 60.0
"""An etcd that is well is read more often, unless the TTL is very long."""


def servers_table(peers: PeersStatus | None) -> tuple[str, ...]:
    """A line for each server after the heads; nothing without peers.

    The server that answers has a star.
    """
    if peers is None or not peers.servers:
        return ()
    rows = [
        (
            f"{one.server}{'*' * (one.server == peers.server)}",
            printable(one.host) if one.host else None,
            printable(one.phase),
            duration(one.age_seconds),
            printable(one.last_word),
        )
        for one in peers.servers
    ]
    return tuple(table(HEADS, rows))


def how_old(peers: PeersStatus | None) -> str:
    """A warning where etcd was read too long ago; else nothing."""
    if peers is None or peers.seen_seconds < STALE_SECONDS:
        return ""
    return f"as they were {duration(peers.seen_seconds)} ago: etcd has not been read since"
