"""Where it listens, and where it cannot."""

from __future__ import annotations

import errno
import os
import socket

import anyio
import pytest

from ascend_supervisor.files.clients import TcpListener
from tests.ports import free_port
from tests.running import DEADLINE_SECONDS

V4, V6 = "127.0.0.1", "::1"


async def reached(listener: TcpListener, host: str, port: int) -> bool:
    """Whether a connection to ``host`` comes to it."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as client:
        if client.connect_ex((host, port)):
            return False
        with anyio.fail_after(DEADLINE_SECONDS):
            await listener.readable()
        listener.accept().close()
        return True


def without_v6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind((V6, 0))
    except OSError:
        return True
    return False


needs_v6 = pytest.mark.skipif(without_v6(), reason="this machine has no IPv6 address")


@pytest.mark.parametrize(
    ("host", "by_v4", "by_v6"),
    [
        pytest.param(V4, True, False, marks=needs_v6),
        pytest.param(V6, False, True, marks=needs_v6),
        pytest.param("", True, True, marks=needs_v6),
        ("0.0.0.0", True, False),  # noqa: S104
    ],
)
async def test_it_listens_where_it_was_told(host, by_v4, by_v6):
    port = free_port(host or "::")
    listener = TcpListener(host, port)
    try:
        assert await reached(listener, V4, port) == by_v4
        assert await reached(listener, V6, port) == by_v6
        with pytest.raises(BlockingIOError):
            listener.accept()
    finally:
        listener.close()


@pytest.mark.parametrize("first", [V4, ""])
@pytest.mark.parametrize("second", [V4, ""])
def test_a_port_that_is_taken_is_not_shared(first, second):
    port = free_port()
    listener = TcpListener(first, port)
    try:
        with pytest.raises(OSError, match=os.strerror(errno.EADDRINUSE)):
            TcpListener(second, port)
    finally:
        listener.close()


async def test_right_after_its_end_the_port_can_be_had_again():
    port = free_port()
    for _ in range(2):
        listener = TcpListener(V4, port)
        assert await reached(listener, V4, port)  # we close first, which leaves TIME_WAIT
        listener.close()


def test_an_address_of_another_machine_is_refused():
    with pytest.raises(OSError, match=os.strerror(errno.EADDRNOTAVAIL)):
        TcpListener("192.0.2.1", free_port())
