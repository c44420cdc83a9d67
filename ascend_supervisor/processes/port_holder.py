"""Which process listens at a TCP address of this machine, from /proc/net."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

from ascend_supervisor.processes import proc
from ascend_supervisor.processes.descriptors import holds_file

LISTENS = "0A"
"""TCP_LISTEN, as in include/net/tcp_states.h."""
WORD_BYTES = 4


def port_holder(address: str, port: int, root: Path = proc.PROC) -> str | None:
    """A description of the process that listens there, or at all addresses; None if none is seen.

    Those of other users and other PID namespaces cannot be seen. It takes long on a machine with
    many processes, and may block.
    """
    sockets = frozenset(f"socket:[{inode}]" for inode in _listening(address, port, root))
    if not sockets:
        return None
    for number in proc.pids(root):
        if holds_file(number, sockets, root):
            return proc.description(number)
    return None


def listening_ports(files: frozenset[str], root: Path = proc.PROC) -> list[int]:
    """The TCP ports at which a process listens that has these open ``files``."""
    sockets = {one for one in files if one.startswith("socket:[")}
    if not sockets:
        return []
    return sorted({port for _, port, inode in _listeners(root) if f"socket:[{inode}]" in sockets})


def _listening(address: str, port: int, root: Path) -> Iterator[str]:
    """The inodes of the sockets that listen there, of IPv4 and IPv6."""
    wanted = ip_address(address)
    for host, number, inode in _listeners(root):
        found = _address(host)
        is_there = found == wanted or found.is_unspecified or wanted.is_unspecified
        if number == port and is_there:
            yield inode


def _listeners(root: Path) -> Iterator[tuple[str, int, str]]:
    """The address, as the kernel writes it, the port and the inode of each socket that listens."""
    for name in ("tcp", "tcp6"):
        try:
            lines = (root / "self" / "net" / name).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            host, _, number = fields[1].rpartition(":")
            if fields[3] == LISTENS:
                yield host, int(number, 16), fields[9]


def _address(digits: str) -> IPv4Address | IPv6Address:
    """The address that the kernel writes as words of 32 bits in the machine's own byte order."""
    size = 2 * WORD_BYTES
    words = (digits[at : at + size] for at in range(0, len(digits), size))
    data = b"".join(int(word, 16).to_bytes(WORD_BYTES, sys.byteorder) for word in words)
    found = ip_address(data)
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return mapped or found
