"""The rank table of a job for which nobody writes one; pure.

It is made of what the servers publish: all make it of the same roster, so all have the same one. Or
it is that of one machine alone, or what variables declare.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from ascend_supervisor.cluster.parsing import parse
from ascend_supervisor.cluster.rank_table import (
    Device,
    Entry,
    FoundTable,
    NotReady,
    RankTable,
    converted,
    is_loopback,
    listed,
    template_1,
)
from ascend_supervisor.errors import TableRefused
from ascend_supervisor.events.rank_table import (
    SERVERS_PATH,
    STANDALONE_PATH,
)
from ascend_supervisor.settings.readers import MOST_DEVICES

MADE = Path(SERVERS_PATH)
"""Stands for the path of the table."""
MOST_DEVICE = 65535


class ServerDevice(Struct, frozen=True, array_like=True):
    """A device of one server; ``ip`` is the address of its own network port, None without one."""

    device_id: Annotated[int, Meta(ge=0, le=MOST_DEVICE)]
    ip: str | None = None


class Server(Struct, frozen=True):
    """What a server publishes: an address for the others, and its devices in local order.

    ``machine`` is the same for two servers that run on the same machine.
    """

    address: str
    devices: tuple[ServerDevice, ...]
    machine: str


def made_table(servers: Sequence[Server]) -> FoundTable:
    """Template 1, with ``servers`` in order of their index; raises TableRefused.

    Servers may have different numbers of devices, as in any table of this format. Two servers with
    one address get different names in the table, and each its own entry.
    """
    _check_loopback(servers)
    document = _document(servers)
    table = parse(document)
    if isinstance(table, NotReady):
        raise TableRefused(table.reason)
    made = replace(_without_noise(table), is_made=True)
    return FoundTable(MADE, made, sha256(document).hexdigest())


def _document(servers: Sequence[Server]) -> bytes:
    ranks, alike = count(), Counter(server.address for server in servers)
    return template_1(
        [
            {
                "server_id": _name(server, index, alike[server.address]),
                "host_ip": server.address,
                "device": [
                    listed(Device(next(ranks), one.device_id, one.ip)) for one in server.devices
                ],
            }
            for index, server in enumerate(servers)
        ]
    )


def _name(server: Server, index: int, alike: int) -> str:
    """Unique in the table, as HCCL requires."""
    return server.address if alike == 1 else f"{server.address}-{index}"


def _without_noise(table: RankTable) -> RankTable:
    """No HCCL reads the table of machines without NPUs, so it has nothing to be warned of."""
    has_npus = any(device.device_ip for entry in table.entries for device in entry.devices)
    return table if has_npus else replace(table, warnings=())


def _check_loopback(servers: Sequence[Server]) -> None:
    """Raise TableRefused if a server could not be reached by another one at its address."""
    machines = {server.machine for server in servers}
    for index, server in enumerate(servers):
        if len(machines) > 1 and is_loopback(server.address):
            raise TableRefused(
                f"server {index}: expected an address that the other servers reach, found "
                f"{server.address}; set POD_IP to it there, or give it as --server-id"
            )


STANDALONE, DECLARED = Path(STANDALONE_PATH), Path("environment")
"""What stands for the path of a table that came from no file."""


def standalone_table(devices: int) -> FoundTable:
    """A table of our own for one machine without a cluster; raises TableRefused."""
    document = standalone(devices)
    table = parse(document)
    if isinstance(table, NotReady):
        raise TableRefused(table.reason)
    return found_in(STANDALONE, table)


def found_in(place: Path, table: RankTable) -> FoundTable:
    """A table that came from no file; if ranks get no file, the digest covers the entries."""
    content = table.document or repr(table.entries).encode()
    return FoundTable(place, table, sha256(content).hexdigest())


def standalone(devices: int) -> bytes:
    """The table of one server without a network; raises TableRefused for too many devices."""
    if not 1 <= devices <= MOST_DEVICES:
        raise TableRefused(f"a table of one server has 1 to {MOST_DEVICES} devices, not {devices}")
    local = tuple(Device(rank, rank, "127.0.0.1") for rank in range(devices))
    return converted([Entry(local, server_id="127.0.0.1")])
