"""Whether a TCP port of this machine is free."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_HELD = frozenset({"01", "0A"})
"""Connected, listening; what has ended (TIME_WAIT) goes by itself."""
_V6_DIGITS = 32
_MAPPED, _V6_LOOPBACK = "0" * 16 + "FFFF0000", "0" * 24 + "01000000"
"""The beginning of an IPv4 address in IPv6, and ::1."""


def held_ports(net: Path) -> frozenset[int]:
    """Those at which programs listen or are connected, unless at a loopback address.

    ``net`` is /proc/net. Raises OSError.
    """
    found: set[int] = set()
    for table in (net / "tcp", net / "tcp6"):
        with suppress(FileNotFoundError):  # a kernel without IPv6
            found |= set(_held(table))
    return frozenset(found)


def _held(table: Path) -> Iterator[int]:
    for line in table.read_text().splitlines()[1:]:
        _, local, _, state = line.split(maxsplit=4)[:4]
        address, _, port = local.partition(":")
        if state in _HELD and not _is_loopback(address):
            yield int(port, 16)


def _is_loopback(address: str) -> bool:
    """As the kernel writes it, in words whose bytes are reversed."""
    is_v4 = len(address) < _V6_DIGITS or address.startswith(_MAPPED)
    return address.endswith("7F") if is_v4 else address == _V6_LOOPBACK


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
