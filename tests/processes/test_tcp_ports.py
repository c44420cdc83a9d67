"""Ports that other programs hold, with real sockets."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ascend_supervisor.processes.tcp_ports import held_ports

NET = Path("/proc/net")


@pytest.fixture
def listening() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def listener(stack: ExitStack, host: str) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = stack.enter_context(socket.socket(family))
    made.bind((host, 0))
    made.listen()
    port: int = made.getsockname()[1]
    return port


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])  # noqa: S104
def test_a_port_is_held_while_a_program_listens_there(host):
    with ExitStack() as stack:
        port = listener(stack, host)
        assert port in held_ports(NET)
    assert port not in held_ports(NET)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.8.7", "::1", "::ffff:127.0.0.1"])
def test_at_a_loopback_address_nobody_is_in_the_way(listening, host):
    assert listener(listening, host) not in held_ports(NET)


def test_a_connection_at_loopback_that_lasts_is_not_in_the_way(listening):
    port = listener(listening, "127.0.0.1")
    near = listening.enter_context(socket.create_connection(("127.0.0.1", port)))
    assert near.getsockname()[1] not in held_ports(NET)
