"""A socket with a name: of any length, for its user only, and never in the place of others."""

from __future__ import annotations

import errno
import os
import socket
import stat
from pathlib import Path

import pytest

from ascend_supervisor.files.socket_file import ListeningSocket, connect

LONG = "d" * 100


def asked(path: Path, listening: ListeningSocket) -> bytes:
    """What a client hears that connects to ``path``."""
    with socket.socket(socket.AF_UNIX) as client:
        connect(client, path)
        connection, _ = listening.socket.accept()
        with connection:
            connection.sendall(b"here")
        return client.recv(10)


@pytest.mark.parametrize("above", [".", f"{LONG}/{LONG}/{LONG}"])
def test_it_listens_however_long_its_path_is(tmp_path, above):
    path = tmp_path / above / f"{LONG}.sock"
    path.parent.mkdir(parents=True, exist_ok=True)
    assert len(str(path)) > 107
    listening = ListeningSocket.at(path)
    assert asked(path, listening) == b"here"
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    listening.remove()
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_it_is_for_its_user_only_whatever_the_umask_is(tmp_path, umask):
    before = os.umask(umask)
    try:
        listening = ListeningSocket.at(tmp_path / "s")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o600
    listening.remove()


def test_what_a_dead_process_has_left_is_replaced(tmp_path):
    left = ListeningSocket.at(tmp_path / "s")
    left.socket.close()
    with pytest.raises(ConnectionRefusedError), socket.socket(socket.AF_UNIX) as client:
        connect(client, tmp_path / "s")
    listening = ListeningSocket.at(tmp_path / "s")
    assert asked(tmp_path / "s", listening) == b"here"
    left.remove()  # too late: the file is another's
    assert asked(tmp_path / "s", listening) == b"here"
    listening.remove()


@pytest.mark.parametrize("backlog", [0, 1])
def test_a_socket_at_which_somebody_listens_is_left_alone(tmp_path, backlog):
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as others:
        others.bind(str(path))
        others.listen(backlog)
        for _ in range(3):  # the second or third finds no room
            with pytest.raises(OSError, match="another process listens there") as refused:
                ListeningSocket.at(path)
            assert refused.value.errno == errno.EADDRINUSE
    assert list(tmp_path.iterdir()) == [path]


def _file(path: Path) -> None:
    path.write_text("mine")


def _link(path: Path) -> None:
    path.symlink_to("elsewhere")


@pytest.mark.parametrize("make", [_file, _link, Path.mkdir, os.mkfifo])
def test_what_is_no_socket_is_left_alone(tmp_path, make):
    path = tmp_path / "s"
    make(path)
    before = path.lstat()
    with pytest.raises(OSError, match="something that is not a socket is there"):
        ListeningSocket.at(path)
    assert path.lstat() == before
    assert list(tmp_path.iterdir()) == [path]


def test_it_is_gone_when_somebody_has_removed_it(tmp_path):
    listening = ListeningSocket.at(tmp_path / "s")
    (tmp_path / "s").unlink()
    listening.remove()
    assert list(tmp_path.iterdir()) == []


def test_where_the_file_system_holds_no_sockets_there_is_an_error_and_nothing_is_left():
    with pytest.raises(OSError, match=r"Operation not permitted|No such file|Permission"):
        ListeningSocket.at(Path("/proc/self/s"))


def test_a_client_does_not_follow_a_link(tmp_path):
    listening = ListeningSocket.at(tmp_path / "s")
    (tmp_path / "link").symlink_to("s")
    with socket.socket(socket.AF_UNIX) as client, pytest.raises(ConnectionRefusedError):
        connect(client, tmp_path / "link")
    listening.remove()
