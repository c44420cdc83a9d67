"""A TCP socket that listens at an address of this machine; no program that we start inherits it."""

from __future__ import annotations

import socket

import anyio

from ascend_supervisor.files.reserved_descriptor import Reserve
from ascend_supervisor.files.socket_file import BACKLOG


class TcpListener:
    """Listens from the start to ``close``, at all addresses if ``host`` is empty.

    ``host`` is an IP address, so nothing is looked up, and nothing blocks. Raises OSError.
    ``reserve`` is to answer with when no other descriptor is left.
    """

    def __init__(self, host: str, port: int) -> None:
        self.reserve = Reserve()
        self._socket = _listening(host, port)
        self._socket.settimeout(0)

    async def readable(self) -> None:
        """Return when ``accept`` may succeed."""
        await anyio.wait_readable(self._socket)

    def accept(self) -> socket.socket:
        """The next connection; never blocks. Raises OSError, BlockingIOError if there is none."""
        return self._socket.accept()[0]

    def close(self) -> None:
        self._socket.close()


def _listening(host: str, port: int) -> socket.socket:
    if not host and socket.has_dualstack_ipv6():
        return socket.create_server(
            (host, port), family=socket.AF_INET6, backlog=BACKLOG, dualstack_ipv6=True
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG)
