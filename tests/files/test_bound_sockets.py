"""A Unix socket at a path."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from ascend_supervisor.files.socket_file import bind_at


@pytest.fixture
def made() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
        yield one


@pytest.fixture
def client() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
        yield one


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_its_mode_is_private_whatever_the_umask_is(made, tmp_path: Path, umask):
    usual = os.umask(umask)
    try:
        bind_at(made, tmp_path / "a" / "socket")
    finally:
        os.umask(usual)
    assert stat.S_IMODE((tmp_path / "a" / "socket").stat().st_mode) == 0o600


def test_a_path_may_be_longer_than_an_address(made, client, tmp_path: Path):
    path = tmp_path / ("x" * 200) / "socket"
    bind_at(made, path)
    directory = os.open(path.parent, os.O_PATH)
    try:
        client.sendto(b"heard", f"/proc/self/fd/{directory}/socket")
    finally:
        os.close(directory)
    assert made.recv(99) == b"heard"


def test_a_socket_that_was_left_is_replaced(made, client, tmp_path: Path):
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as earlier:
        earlier.bind(str(path))
    bind_at(made, path)
    client.sendto(b"heard", str(path))
    assert made.recv(99) == b"heard"
    assert [one.name for one in tmp_path.iterdir()] == ["socket"]


@pytest.mark.parametrize("kind", ["file", "directory", "link"])
def test_what_is_no_socket_stays(made, tmp_path: Path, kind):
    path, target = tmp_path / "socket", tmp_path / "target"
    target.write_text("precious")
    if kind == "file":
        path.write_text("precious")
    elif kind == "link":
        path.symlink_to(target)
    else:
        path.mkdir()
    with pytest.raises(FileExistsError, match="something that is not a socket is there"):
        bind_at(made, path)
    assert (path.read_text() == "precious") if kind != "directory" else path.is_dir()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["socket", "target"]


def test_it_is_removed_once(made, tmp_path: Path):
    path = tmp_path / "socket"
    file = bind_at(made, path)
    file.remove()
    assert not path.exists()
    file.remove()


def test_a_successor_is_not_removed(made, client, tmp_path: Path):
    path = tmp_path / "socket"
    file = bind_at(made, path)
    path.unlink()
    bind_at(client, path)
    file.remove()
    assert path.is_socket()


def test_where_it_cannot_be_made_nothing_is_left(made, tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"Not a directory|File exists"):
        bind_at(made, tmp_path / "file" / "socket")
    assert [one.name for one in tmp_path.iterdir()] == ["file"]
