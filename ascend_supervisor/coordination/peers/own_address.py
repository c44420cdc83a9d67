"""The address at which the other servers of the job reach this one."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress

from ascend_supervisor.errors import Unavailable
from ascend_supervisor.etcd.access import Endpoint

POD_IP = "POD_IP"
"""From Kubernetes' downward API (status.podIP)."""


def own_address(named: str | None, environ: Mapping[str, str], etcd: Sequence[Endpoint]) -> str:
    """``named`` (--server-id), else POD_IP, else the address from which etcd is reached.

    It may block. Raises Unavailable if there is no way to etcd.
    """
    if known := named or environ.get(POD_IP):
        return known
    for endpoint in etcd:
        with suppress(OSError):
            return _address_towards(endpoint)
    raise Unavailable(
        "--servers: this server has no address towards etcd, at which the others could reach it; "
        f"set {POD_IP} to its address, or give it as --server-id"
    )


def _address_towards(endpoint: Endpoint) -> str:
    """Connecting a UDP socket sends nothing: the kernel only looks up the route."""
    found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_DGRAM)
    family, kind, protocol, _, address = found[0]
    with socket.socket(family, kind, protocol) as way:
        way.connect(address)
        return str(way.getsockname()[0])
