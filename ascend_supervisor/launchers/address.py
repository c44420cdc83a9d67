"""The rendezvous address of rank 0; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import ip_address

from ascend_supervisor.cluster.from_environment.declared import Store
from ascend_supervisor.cluster.from_environment.volcano import has_tasks, host_of, hosts
from ascend_supervisor.cluster.rank_table import Entry, Format, RankTable
from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.launchers.process_spec import ProcessSpec

LOOPBACK = "127.0.0.1"

WITHOUT_ADDRESS = (
    "ranks start without it, because VC_WORKER_HOSTS is not set and the rank table holds no "
    "address of the first server; if they use torch.distributed, set MASTER_ADDR to that address, "
    "the same on all servers"
)


def master_address(
    table: RankTable, environ: Mapping[str, str], store: Store | None = None
) -> str | None:
    """The rendezvous address of rank 0; None if the job has several servers and none is known.

    That of ``store`` comes first, then this machine's own if all ranks are here: from a container
    with a network of its own, the host's address may lead nowhere. Else the names of the platform
    come first, then the addresses in the table: a pod's own before its host's. A table in which all
    servers are at 127.0.0.1, such as that of --standalone, needs no name of the platform. Nor does
    one that the servers have made: a spare may have the place of rank 0, and no variable knows it.
    """
    if store is not None:
        return store.host
    entry = _entry_of_rank_0(table)
    if entry is not None and (
        table.holds_all(entry) or all(_address(table, other) == LOOPBACK for other in table.entries)
    ):
        return LOOPBACK
    if table.is_made and entry is not None and entry.host_ip:
        return entry.host_ip
    known = _address(table, entry)
    if known == LOOPBACK:
        known = None
    return _of_the_platform(entry, environ) or known or next(filter(None, hosts(environ)), None)


def _of_the_platform(entry: Entry | None, environ: Mapping[str, str]) -> str | None:
    """The first of Volcano's hosts, if rank 0 is there; else MASTER_ADDR, else the host it is on.

    ``entry`` is that of rank 0. In a job of several tasks only the entry's name tells its host.
    """
    pod = entry.pod_name if entry is not None else None
    own = host_of(environ, pod) if pod else None
    first = "" if has_tasks(environ) else next(iter(hosts(environ)), "")
    if first and own in (None, first):
        return first
    return environ.get("MASTER_ADDR") or own


def needed_address(
    method: str, table: RankTable, environ: Mapping[str, str], store: Store | None = None
) -> str:
    """The rendezvous address of rank 0; raises SettingsRefused if it is unknown."""
    address = master_address(table, environ, store)
    if address is None:
        raise SettingsRefused(
            f"{method} needs the address of the first server, and neither the environment nor the "
            "rank table gives one; set MASTER_ADDR to it, the same on all servers"
        )
    return address


def without_address(specs: Sequence[ProcessSpec]) -> bool:
    """Whether ranks are started without the rendezvous address of rank 0."""
    return any(spec.environ.get("MASTER_ADDR", "") is None for spec in specs)


def _entry_of_rank_0(table: RankTable) -> Entry | None:
    for entry in table.entries:
        if any(device.rank == 0 for device in entry.devices):
            return entry
    return None if table.world_size else next(iter(table.entries), None)


def _address(table: RankTable, entry: Entry | None) -> str | None:
    """An address in the table. A server_id may be a name or a uid that nobody can connect to."""
    if entry is None:
        return None
    if table.format is Format.DECLARED:
        return entry.server_id  # the name of a host, as in VC_WORKER_HOSTS
    known = (entry.container_ip, entry.host_ip, entry.pod_ip, entry.server_ip, entry.server_id)
    return next((name for name in known if name and is_ip(name)), None)


def is_ip(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return name.isprintable()
