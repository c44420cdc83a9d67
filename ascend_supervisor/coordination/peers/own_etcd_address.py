"""Where the etcd of the job is: at the first server's address, as its ranks reach it.

Its port must be free there.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterable, Iterator, Mapping
from functools import partial

import anyio
from msgspec.structs import replace

from ascend_supervisor.cluster.declared import TorchStore
from ascend_supervisor.cluster.platforms import master_address
from ascend_supervisor.cluster.rank_table import RankTable, is_ip, is_loopback
from ascend_supervisor.errors import SettingsRefused, Unavailable
from ascend_supervisor.etcd.access import Endpoint
from ascend_supervisor.processes.tcp_ports import port_holder
from ascend_supervisor.tasks.threads import aside
from ascend_supervisor.untrusted_text import shown

AGAIN_SECONDS = 0.2
LOOKS = 25
"""In 5 s the etcd of a supervisor that was killed has died."""
EVERYWHERE = "0.0.0.0"  # noqa: S104  (only where nothing else is known)
NOT_OURS = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})


async def serves_at(
    reached_at: Endpoint, own_addresses: Iterable[str], looks: int = LOOKS
) -> Endpoint:
    """Where to listen, so that it is ``reached_at`` by the others; ``own_addresses`` are a hint.

    One address of this machine, if any is known: that of the name at which it is reached, else one
    of its own. A name may be that of a service, which no machine has. Raises Unavailable for a port
    that is taken at each of ``looks``, SettingsRefused for one that we may not use.
    """
    named = await aside(partial(_addresses, reached_at.host))
    while isinstance(found := _found(reached_at, named, own_addresses), OSError):
        looks -= 1
        if not looks:
            raise await aside(partial(_refusal, found, reached_at.port))
        await anyio.sleep(AGAIN_SECONDS)
    return found


def _refusal(error: OSError, port: int) -> SettingsRefused | Unavailable:
    """It names who listens there, if that can be seen; may block."""
    where = error.filename
    if error.errno != errno.EADDRINUSE:
        return SettingsRefused(
            f"--peers-port {port}: cannot listen at {where}: {error.strerror}; choose another "
            "port, the same on all servers"
        )
    holder = port_holder(where, port)
    whose = f"process {holder} listens there" if holder else "who listens there cannot be seen"
    return Unavailable(
        f"--peers-port {port}: the port is taken at {where}, where the etcd of --peers first is to "
        f"listen: {whose}; end that, or choose another port, the same on all servers"
    )


def _found(reached_at: Endpoint, named: Iterable[str], own: Iterable[str]) -> Endpoint | OSError:
    """The first address of this machine; an error if it cannot be used, with the address.

    A loopback address that /etc/hosts gives to a name here is the name's nowhere else.
    """
    local = [address for address in named if is_loopback(address)]
    if reached_at.host in local:
        local, named = [], local
    others = [address for address in named if address not in local]
    for address in (*others, *own, *local, EVERYWHERE):
        error = _fault(address, reached_at.port)
        if error is None:
            return replace(reached_at, host=address)
        if error.errno not in NOT_OURS:
            return OSError(error.errno, os.strerror(error.errno or 0), address)
    raise AssertionError


def _fault(address: str, port: int) -> OSError | None:
    """Why nobody can listen there; None if somebody can. SO_REUSEADDR is what etcd sets, too."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((address, port))
            probe.listen()
    except OSError as error:
        return error
    return None


def _addresses(host: str) -> tuple[str, ...]:
    """Those of a name, or the address itself; none if nobody knows it. May block."""
    return tuple(dict.fromkeys(_looked_up(host)))


def _looked_up(host: str) -> Iterator[str]:
    try:
        answers = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise SettingsRefused(
            f"VC_WORKER_HOSTS or MASTER_ADDR: expected a host name, found {shown(host)} ({error})"
        ) from error
    except OSError:
        return
    for answer in answers:
        yield str(answer[4][0]).partition("%")[0]


NO_ADDRESS = (
    "--peers first needs the address of the first server, and neither the environment nor the rank "
    "table gives one (a loopback address in the table does not count); set MASTER_ADDR to it, the "
    "same on all servers"
)


def endpoint_of(
    table: RankTable, environ: Mapping[str, str], store: TorchStore | None, port: int
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
