"""TCP ports of this machine: which process listens there, which are held, whether one is free."""

from __future__ import annotations

import errno
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

from msgspec import Struct

from ascend_supervisor.processes import proc
from ascend_supervisor.processes.descriptors import holds_file

CONNECTED, LISTENS = "01", "0A"
"""TCP_ESTABLISHED and TCP_LISTEN, as in include/net/tcp_states.h."""
WORD_BYTES = 4


class _Socket(Struct, frozen=True):
    """One of /proc/net/tcp or tcp6: its own address, and the name of its file in /proc/PID/fd."""

    address: IPv4Address | IPv6Address
    port: int
    state: str
    file: str


def port_holder(address: str, port: int, root: Path = proc.PROC) -> str | None:
    """A description of the process that listens there, or at all addresses; None if none is seen.

    Those of other users and other PID namespaces cannot be seen. It takes long on a machine with
    many processes, and may block.
    """
    wanted = ip_address(address)
    files = frozenset(
        one.file
        for one in _listeners(root)
        if one.port == port
        and (one.address == wanted or one.address.is_unspecified or wanted.is_unspecified)
    )
    holders = (number for number in proc.pids(root) if files and holds_file(number, files, root))
    holder = next(holders, None)
    return None if holder is None else proc.description(holder)


def listening_ports(files: frozenset[str], root: Path = proc.PROC) -> list[int]:
    """The TCP ports at which a process listens that has these open ``files``."""
    if not any(one.startswith("socket:[") for one in files):
        return []
    return sorted({one.port for one in _listeners(root) if one.file in files})


def held_ports(net: Path) -> frozenset[int]:
    """Those at which programs listen or are connected, unless at a loopback address.

    What has ended (TIME_WAIT) goes by itself. ``net`` is /proc/net. Raises OSError.
    """
    return frozenset(
        one.port
        for one in _sockets(net)
        if one.state in {CONNECTED, LISTENS} and not one.address.is_loopback
    )


def can_bind(port: int) -> bool:
    """Whether a program that sets SO_REUSEADDR could listen there, as those of torch do.

    It could not while one that did not set it has left connections in TIME_WAIT, or still runs.
    """
    try:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("", port))
    except OSError as error:
        return error.errno != errno.EADDRINUSE
    return True


def _listeners(root: Path) -> Iterator[_Socket]:
    with suppress(OSError):
        yield from (one for one in _sockets(root / "self" / "net") if one.state == LISTENS)


def _sockets(net: Path) -> Iterator[_Socket]:
    """Raises OSError."""
    for table in (net / "tcp", net / "tcp6"):
        with suppress(FileNotFoundError):  # a kernel without IPv6
            for line in table.read_text().splitlines()[1:]:
                fields = line.split()
                host, _, port = fields[1].partition(":")
                yield _Socket(_address(host), int(port, 16), fields[3], f"socket:[{fields[9]}]")


def _address(digits: str) -> IPv4Address | IPv6Address:
    """The address that the kernel writes as words of 32 bits in the machine's own byte order."""
    size = 2 * WORD_BYTES
    words = (digits[at : at + size] for at in range(0, len(digits), size))
    data = b"".join(int(word, 16).to_bytes(WORD_BYTES, sys.byteorder) for word in words)
    found = ip_address(data)
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return mapped or found
