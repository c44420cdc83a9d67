"""The notify socket, and what the kernel says of its messages."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ascend_supervisor.notify_socket.bound_socket import (
    MESSAGE_BYTES,
    BoundSocket,
    Datagram,
    bound_to_file,
    bound_to_name,
)
from tests.workers.test_preparation import no_file_left

CLEANER = """
import os, sys
print("removes", flush=True)
while True:
    try:
        os.unlink(sys.argv[1])
    except FileNotFoundError:
        pass
"""
MOST_DESCRIPTORS = 253
"""SCM_MAX_FD of the kernel, unix(7)."""


@pytest.fixture(params=["file", "name"])
def bound(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BoundSocket]:
    made = bound_to_file(tmp_path / "socket") if request.param == "file" else bound_to_name()
    with made.socket:
        yield made


@pytest.fixture
def client(bound: BoundSocket) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
        address = bound.address
        one.connect(f"\0{address[1:]}" if address[0] == "@" else address)
        yield one


def heard(bound: BoundSocket, most: int = 99) -> list[Datagram]:
    return list(bound.datagrams(most))


def test_the_kernel_vouches_for_the_sender(bound, client):
    client.send(b"READY=1")
    client.send(b"")
    assert heard(bound) == [Datagram(os.getpid(), b"READY=1"), Datagram(os.getpid(), b"")]


def test_where_nobody_has_spoken_nothing_waits(bound):
    assert heard(bound) == []


def test_only_so_many_are_read_at_once(bound, client):
    for number in range(5):
        client.send(b"%d" % number)
    assert [one.text for one in heard(bound, 2)] == [b"0", b"1"]
    assert [one.text for one in heard(bound)] == [b"2", b"3", b"4"]


def test_a_message_that_is_too_long_is_ignored(bound, client):
    for length in (MESSAGE_BYTES, MESSAGE_BYTES + 1, 1):
        client.send(b"x" * length)
        assert len(heard(bound)) == (length != MESSAGE_BYTES + 1)


def descriptors() -> list[str]:
    return sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208


@pytest.mark.parametrize("count", [1, MOST_DESCRIPTORS])
def test_no_descriptor_comes_in_with_a_message(bound, client, count):
    """Its sender sees the other end of a pipe closed: that is what BARRIER=1 waits for."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe:
        socket.send_fds(client, [b"BARRIER=1"], [writing] * count)
        os.close(writing)
        before = descriptors()
        assert heard(bound) == [Datagram(os.getpid(), b"BARRIER=1")]
        assert descriptors() == before
        assert pipe.read() == b""


def test_none_comes_in_where_there_is_no_room_for_one(bound, client):
    socket.send_fds(client, [b"X=1"], [0] * MOST_DESCRIPTORS)
    client.send(b"READY=1")
    with no_file_left():
        assert [one.text for one in heard(bound)] == [b"X=1", b"READY=1"]


def test_a_file_that_cannot_be_made_leaves_no_socket_open(tmp_path: Path):
    (tmp_path / "socket").touch()
    before = descriptors()
    with pytest.raises(FileExistsError):
        bound_to_file(tmp_path / "socket")
    assert descriptors() == before


def test_no_two_names_are_the_same():
    with bound_to_name().socket as one, bound_to_name().socket as other:
        assert one.getsockname() != other.getsockname()


@pytest.mark.thorough
def test_a_file_that_is_removed_at_once_is_no_error(tmp_path):
    path = tmp_path / "socket"
    words = (sys.executable, "-c", CLEANER, str(path))
    with subprocess.Popen(words, stdout=subprocess.PIPE) as cleaner:
        try:
            assert cleaner.stdout is not None
            assert cleaner.stdout.readline() == b"removes\n"
            for _ in range(3000):
                bound_to_file(path).socket.close()
        finally:
            cleaner.kill()
