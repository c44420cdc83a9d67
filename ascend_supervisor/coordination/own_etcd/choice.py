"""From settings to the etcd of ``--peers first``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from ascend_supervisor.cluster.from_environment.declared import Store
from ascend_supervisor.cluster.identity import Identity, find_entry
from ascend_supervisor.cluster.rank_table import FoundTable
from ascend_supervisor.coordination.own_etcd.address import endpoint_of, own_addresses
from ascend_supervisor.coordination.own_etcd.first_server import FIRST, FirstServer
from ascend_supervisor.coordination.own_etcd.machine import Machine
from ascend_supervisor.coordination.own_etcd.rules import Rules
from ascend_supervisor.coordination.peers.meeting import Meeting
from ascend_supervisor.launchers.choice import meeting_here
from ascend_supervisor.settings.precedence import Settings


def first_server_of(settings: Settings, meeting: Meeting, machine: Machine) -> FirstServer:
    rules = Rules(meeting.name, settings.peers_ttl, meeting.fence, meeting.timeout)
    return FirstServer(meeting.etcd, rules, machine)


def table_with_etcd(
    table: Callable[[], Awaitable[FoundTable]],
    whoami: Identity,
    settings: Settings,
    environ: Mapping[str, str],
    first: FirstServer,
) -> Callable[[], Awaitable[FoundTable]]:
    """The same table, when the etcd answers where it says; the first server has node rank 0."""
    found_here = meeting_here(settings, environ)
    store = found_here if isinstance(found_here, Store) else None

    async def reached() -> FoundTable:
        found = await table()
        endpoint = endpoint_of(found.table, environ, store, settings.peers_port)
        if find_entry(found.table, whoami)[0] == FIRST:
            await first.serve(endpoint, own_addresses(found.table))
        else:
            await first.wait(endpoint)
        return found

    return reached
