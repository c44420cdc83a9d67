"""Where the etcd of a job is: at the first server's address, as its ranks reach it; pure."""

from __future__ import annotations

from collections.abc import Mapping

from ascend_supervisor.cluster.from_environment.declared import Store
from ascend_supervisor.cluster.rank_table import RankTable
from ascend_supervisor.errors import SettingsRefused
from ascend_supervisor.etcd.access import Endpoint
from ascend_supervisor.launchers.address import is_ip, master_address

NO_ADDRESS = (
    "--peers first needs the address of the first server, and neither the environment nor the rank "
    "table gives one (a loopback address in the table does not count); set MASTER_ADDR to it, the "
    "same on all servers"
)


def endpoint_of(
    table: RankTable, environ: Mapping[str, str], store: Store | None, port: int
) -> Endpoint:
    """Where the servers of the job find it; raises SettingsRefused.

    The host is the one at which the ranks meet.
    """
    host = master_address(table, environ, store)
    if host is None:
        raise SettingsRefused(NO_ADDRESS)
    return Endpoint(host, port, is_tls=False, whose="the etcd of the first server, server 0")


def own_addresses(table: RankTable) -> tuple[str, ...]:
    """The addresses that the table gives for the first server."""
    first = table.entries[0]
    known = (first.container_ip, first.pod_ip, first.host_ip, first.server_ip, first.server_id)
    return tuple(dict.fromkeys(name for name in known if name and is_ip(name)))
