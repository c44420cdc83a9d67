"""Template 1, the rank table that HCCL reads: what other formats are converted to; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import orjson

from ascend_supervisor.cluster.rank_table import Device, Entry
from ascend_supervisor.errors import TableRefused
from ascend_supervisor.settings.readers import MOST_DEVICES


def of_entries(entries: Iterable[Entry]) -> bytes:
    """The entries, in rank order, with those of the same server merged, as HCCL requires."""
    servers: dict[str | None, list[dict[str, str]]] = {}
    for entry in entries:
        servers.setdefault(entry.server_id, []).extend(map(listed, entry.devices))
    return of_servers(
        [{"server_id": server_id, "device": devices} for server_id, devices in servers.items()]
    )


def of_servers(servers: Sequence[Mapping[str, object]]) -> bytes:
    """The whole table; each server has a ``server_id``, and its ``device`` are ``listed`` ones."""
    table = {
        "status": "completed",
        "version": "1.0",
        "server_count": str(len(servers)),
        "server_list": servers,
    }
    return orjson.dumps(table, option=orjson.OPT_APPEND_NEWLINE)


def listed(device: Device) -> dict[str, str]:
    ip = {} if device.device_ip is None else {"device_ip": device.device_ip}
    return {"device_id": str(device.device_id), **ip, "rank_id": str(device.rank)}


def standalone(devices: int) -> bytes:
    """The table of one server without a network; raises TableRefused for too many devices."""
    if not 1 <= devices <= MOST_DEVICES:
        raise TableRefused(f"a table of one server has 1 to {MOST_DEVICES} devices, not {devices}")
    local = tuple(Device(rank, rank, "127.0.0.1") for rank in range(devices))
    return of_entries([Entry(local, server_id="127.0.0.1")])
