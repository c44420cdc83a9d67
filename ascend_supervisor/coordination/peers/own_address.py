"""The address at which the other servers of the job reach this one."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence

from ascend_supervisor.etcd.access import Endpoint
from ascend_supervisor.etcd.failures import EtcdError

POD_IP = "POD_IP"
"""From Kubernetes' downward API (status.podIP)."""


class NoWay(EtcdError):
    """There is no way to etcd yet: no address of its name, or no network."""


def own_address(named: str | None, environ: Mapping[str, str], etcd: Sequence[Endpoint]) -> str:
    """``named`` (--server-id), else POD_IP, else the address from which etcd is reached.

    It may block. Raises NoWay, which may pass.
    """
    if known := named or environ.get(POD_IP):
        return known
    why = []
    for endpoint in etcd:
        try:
            return _address_towards(endpoint)
        except OSError as error:
            why.append(f"{endpoint.host}: {error.strerror or error}")
    raise NoWay(
        "this server has no address towards etcd, at which the others could reach it "
        f"({'; '.join(why)}); set {POD_IP} to its address, or give it as --server-id"
    )


def _address_towards(endpoint: Endpoint) -> str:
    """Connecting a UDP socket sends nothing: the kernel only looks up the route."""
    found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_DGRAM)
    family, kind, protocol, _, address = found[0]
    with socket.socket(family, kind, protocol) as way:
        way.connect(address)
        return str(way.getsockname()[0])
