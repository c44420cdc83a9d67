"""What some HCCL refuses in a table that is right otherwise, as sentences for people; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ascend_supervisor.cluster.rank_table import Format
from ascend_supervisor.untrusted_text import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ascend_supervisor.cluster.rank_table import Entry


def warnings_about(layout: Format, entries: Sequence[Entry]) -> tuple[str, ...]:
    """A sentence for each doubt."""
    servers: dict[str, list[int]] = {}
    for node_rank, entry in enumerate(entries):
        if entry.devices:
            ranks = servers.setdefault(entry.server_id or f"node rank {node_rank}", [])
            ranks += [device.rank for device in entry.devices]
    using = [server.label for server in entries if _uses_nic(server)]
    nics = _about_nics(using) if layout is Format.TEMPLATE_1 and len(servers) > 1 else ()
    return (*nics, *_about_ranks(servers))


def _uses_nic(server: Entry) -> bool:
    return None in [device.device_ip for device in server.devices]  # faster than any()


def _about_nics(using: Sequence[str]) -> Iterator[str]:
    """Said of template 1 only: the chips of 1.2 can do this."""
    if using:
        yield (
            f"{_first(using)} has devices without device_ip, so HCCL uses the NIC of host_ip: "
            "Atlas A3 can do this, Atlas A2 refuses the table"
        )


def _about_ranks(servers: dict[str, list[int]]) -> Iterator[str]:
    torn = [name for name, ranks in servers.items() if max(ranks) - min(ranks) >= len(ranks)]
    if torn:
        ranks = servers[torn[0]]
        yield (
            f"{_first(torn)} has {len(ranks)} ranks between {min(ranks)} and {max(ranks)}, and "
            "other servers have the rest of these: HCCL does not support ranks that interleave, "
            "so number them server by server"
        )


def _first(servers: Sequence[str]) -> str:
    more = f" (and {len(servers) - 1} more)" if len(servers) > 1 else ""
    return f"server {shown(servers[0])}{more}"
