"""Somebody who listens at a control socket, in the place of a supervisor."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ascend_supervisor.ctl.seen import socket_of
from ascend_supervisor.files.socket_file import ListeningSocket
from tests.ctl.calling import own_state

Serve = Callable[[socket.socket], object]


class Answering:
    """The supervisor of the state file at ``path``; ``asked`` is what it was asked."""

    def __init__(self, path: Path, line: bytes) -> None:
        self.path = path
        self.asked: list[bytes] = []
        self._line = line

    def serve(self, connection: socket.socket) -> None:
        self.asked.append(connection.recv(4096))
        connection.sendall(self._line)


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """A state file whose control socket hands each connection to ``serve``, one after another."""
    opened: list[ListeningSocket] = []

    def listen(serve: Serve, name: str = "state") -> Path:
        path = own_state(tmp_path / name)
        opened.append(ListeningSocket.at(socket_of(path)))
        opened[-1].socket.settimeout(None)
        threading.Thread(target=accept, args=(opened[-1].socket, serve), daemon=True).start()
        return path

    def accept(listener: socket.socket, serve: Serve) -> None:
        with suppress(OSError):  # it is shut down in the end
            while True:
                connection, _ = listener.accept()
                with connection, suppress(ConnectionError):
                    serve(connection)

    yield listen
    for one in opened:
        one.socket.shutdown(socket.SHUT_RDWR)
        one.remove()


@pytest.fixture
def answering(tmp_path: Path, listening: Callable[[Serve], Path]) -> Callable[..., Answering]:
    """Answer everything with these members."""

    def answer(**members: object) -> Answering:
        line = json.dumps({"version": 1, "ok": True, **members}).encode() + b"\n"
        found = Answering(tmp_path / "state", line)
        listening(found.serve)
        return found

    return answer
