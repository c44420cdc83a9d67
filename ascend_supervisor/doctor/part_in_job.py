"""What a server needs to know of the other servers of its job, from its plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING

from msgspec import Struct

from ascend_supervisor.cluster.from_environment import volcano
from ascend_supervisor.cluster.rank_table import Entry, Format, RankTable

if TYPE_CHECKING:
    from ascend_supervisor.coordination.peers.meeting import PeersEtcd

MEETING_VARIABLES = ("MASTER_ADDR", "MS_SCHED_HOST", "CM_CHIEF_IP")
"""Where ranks find rank 0, the scheduler of MindSpore or the chief of TensorFlow."""
MOST_HOSTS_ASKED = 8
"""1,250 servers that all ask for the names of all would be a flood."""


class PartInJob(Struct, frozen=True):
    """``hosts`` are names of other servers, that of rank 0 first; addresses are left out.

    Rank 0 listens at ``port`` if it is here. ``may_hold_ports``: ranks of the job may have them.
    ``etcd`` is that of --peers, if it is named by URLs, and ``job`` is the name of the job there.
    """

    hosts: tuple[str, ...] = ()
    port: int | None = None
    may_hold_ports: bool = False
    etcd: PeersEtcd | None = None
    job: str = ""


def hosts_to_ask(
    table: RankTable, node_rank: int, environ: Mapping[str, str | None]
) -> tuple[str, ...]:
    """The host of rank 0, and those of the next servers; ``environ`` is that of a rank here."""
    own, count = table.entries[node_rank], len(table.entries)
    has_rank_0 = any(device.rank == 0 for device in own.devices) or not table.world_size
    known = {name: value for name, value in environ.items() if value is not None}
    first = [known.get(name, "") for name in MEETING_VARIABLES] if not has_rank_0 else []
    listed = volcano.hosts(known)
    later = ((node_rank + step) % count for step in range(1, min(count, MOST_HOSTS_ASKED + 1)))
    named = [name for index in later for name in _names(table, index, listed)]
    return tuple(dict.fromkeys(name for name in (*first, *named) if _is_name(name)))


def _names(table: RankTable, index: int, listed: tuple[str, ...]) -> Iterator[str]:
    entry: Entry = table.entries[index]
    if len(listed) == len(table.entries):
        yield listed[index]
    elif table.format is Format.DECLARED:
        yield entry.server_id or ""  # as it stands in VC_WORKER_HOSTS
    yield entry.host_ip or ""


def _is_name(text: str) -> bool:
    """Whether it is looked up; ``pod 3`` stands for a name that is not known."""
    try:
        ip_address(text)
    except ValueError:
        return bool(text) and text.isprintable() and " " not in text
    return False
