"""Ports on which a test's own servers can listen, and listen again."""

from __future__ import annotations

import random
import socket

FIRST = 15_000
END = 32_000
"""Below those that the kernel gives to connections (ip_local_port_range: from 32768): a port from
there may be the near end of somebody's connection when the test's server wants it."""


def free_port(host: str = "127.0.0.1") -> int:
    """A port of ``host`` on which nobody listens now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for port in random.sample(range(FIRST, END), 100):
        with socket.socket(family) as probe:
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return port
    raise AssertionError(f"no free port of {host} in 100 tries")
