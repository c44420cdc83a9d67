"""Template 1 for the ranks: converted from other formats, or made up; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from ascend_supervisor.cluster.rank_table import Device, Entry
from ascend_supervisor.errors import TableRefused
from ascend_supervisor.settings.values import MOST_DEVICES

if TYPE_CHECKING:
    from collections.abc import Iterable


def template_1(entries: Iterable[Entry]) -> bytes:
    """The entries, in rank order, with those of the same server merged, as HCCL requires."""
    servers: dict[str | None, list[dict[str, str]]] = {}
    for entry in entries:
        servers.setdefault(entry.server_id, []).extend(map(_device, entry.devices))
    table = {
        "status": "completed",
        "version": "1.0",
        "server_count": str(len(servers)),
        "server_list": [
            {"server_id": server_id, "device": devices} for server_id, devices in servers.items()
        ],
    }
    return orjson.dumps(table, option=orjson.OPT_APPEND_NEWLINE)


def _device(device: Device) -> dict[str, str]:
    device_id, rank_id = str(device.device_id), str(device.rank)
    if device.device_ip is None:
        return {"device_id": device_id, "rank_id": rank_id}
    return {"device_id": device_id, "device_ip": device.device_ip, "rank_id": rank_id}


def standalone(devices: int) -> bytes:
    """A template 1 table for one server without a network; raises TableRefused for too many."""
    if not 1 <= devices <= MOST_DEVICES:
        raise TableRefused(f"a table of one server has 1 to {MOST_DEVICES} devices, not {devices}")
    local = tuple(Device(rank, rank, "127.0.0.1") for rank in range(devices))
    return template_1([Entry(local, server_id="127.0.0.1")])
