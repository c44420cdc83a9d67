"""From settings to the etcd of ``--peers first``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from ascend_supervisor.cluster.from_environment.declared import Store
from ascend_supervisor.cluster.identity import Identity, find_entry
from ascend_supervisor.cluster.rank_table import FoundTable, RankTable
from ascend_supervisor.coordination.own_etcd.address import endpoint_of
from ascend_supervisor.coordination.own_etcd.first_server import FirstServer
from ascend_supervisor.coordination.own_etcd.machine import Machine
from ascend_supervisor.coordination.own_etcd.rules import Rules
from ascend_supervisor.coordination.peers.meeting import Meeting
from ascend_supervisor.etcd.access import Endpoint
from ascend_supervisor.launchers.choice import meeting_here
from ascend_supervisor.settings.precedence import Settings


def first_server_of(
    settings: Settings,
    environ: Mapping[str, str],
    table: Callable[[], Awaitable[FoundTable]],
    whoami: Identity,
    meeting: Meeting,
    machine: Machine,
) -> FirstServer:
    """``table`` waits for the rank table; of ``meeting`` it takes the client and the times."""
    found = meeting_here(settings, environ)
    store = found if isinstance(found, Store) else None

    def endpoint(table: RankTable) -> Endpoint:
        return endpoint_of(table, environ, store, settings.peers_port)

    def node_rank(table: RankTable) -> int:
        return find_entry(table, whoami)[0]

    rules = Rules(
        job=meeting.name,
        ttl=settings.peers_ttl,
        fence=meeting.fence,
        timeout=meeting.timeout,
        endpoint=endpoint,
        node_rank=node_rank,
    )
    return FirstServer(table, meeting.etcd, rules, machine)
