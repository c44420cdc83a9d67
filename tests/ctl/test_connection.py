"""Asking over the control socket, whatever listens there, or nobody."""

from __future__ import annotations

import os
import socket
import threading

import pytest

from ascend_supervisor.control.protocol import (
    MOST_ANSWER_BYTES,
    AnsweredNo,
    NotUnderstood,
    Ping,
    Pong,
)
from ascend_supervisor.ctl.seen import Denied, NoAnswer, NoSocket, ask, socket_of
from tests.ctl.conftest import Serve
from tests.running import DEADLINE_SECONDS, wait_until

PONG = b'{"version":1,"ok":true,"pid":7,"start_time":8}\n'
SHORT_SECONDS = 0.2
"""For those who get no answer; no other test depends on it."""


def saying(line: bytes) -> Serve:
    def serve(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(line)

    return serve


def test_an_answer_is_read_however_it_comes_in_pieces(listening):
    def serve(connection: socket.socket) -> None:
        assert connection.recv(4096) == b'{"version":1,"request":"ping"}\n'
        for byte in PONG:
            connection.sendall(bytes([byte]))

    assert ask(listening(serve), Ping(), Pong, DEADLINE_SECONDS) == Pong(7, 8)


def test_a_path_longer_than_an_address_is_reached(tmp_path, listening):
    (tmp_path / ("d" * 100)).mkdir()
    path = listening(saying(PONG), f"{'d' * 100}/{'s' * 100}")
    assert ask(path, Ping(), Pong, DEADLINE_SECONDS) == Pong(7, 8)


def test_an_error_is_the_sentence_of_the_supervisor(listening):
    path = listening(saying(b'{"version":1,"ok":false,"error":"not now\\u001b"}\n'))
    with pytest.raises(AnsweredNo, match=r"not now\\x1b"):
        ask(path, Ping(), Pong, DEADLINE_SECONDS)


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"[]\n",
        b"{\n",
        b'{"version":2,"ok":true}\n',
        b'{"version":1,"ok":true}\n',
        b'{"version":1,"ok":true,"pid":"seven","start_time":null}\n',
        b'{"version":1,"ok":false}\n',
        b"\xff\n",
        b"[" * 100_000 + b"\n",
    ],
)
def test_an_answer_of_another_kind_is_told(listening, line):
    with pytest.raises(NotUnderstood):
        ask(listening(saying(line)), Ping(), Pong, DEADLINE_SECONDS)


@pytest.mark.parametrize("line", [b"", PONG[:-1], b"x" * (MOST_ANSWER_BYTES + 100_000)])
def test_an_answer_without_an_end_is_none(listening, line):
    assert isinstance(ask(listening(saying(line)), Ping(), Pong, DEADLINE_SECONDS), NoAnswer)


def test_a_listener_that_says_nothing_is_not_waited_for(listening):
    answered = threading.Event()
    in_time: list[bool] = []
    path = listening(lambda _: in_time.append(answered.wait(DEADLINE_SECONDS)))
    assert ask(path, Ping(), Pong, SHORT_SECONDS) == NoAnswer(SHORT_SECONDS)
    answered.set()
    wait_until(lambda: in_time)
    assert in_time == [True]


def test_a_listener_that_drips_is_not_waited_for(listening):
    ended = threading.Event()

    def serve(connection: socket.socket) -> None:
        while not ended.wait(0.01):
            connection.sendall(b" ")

    path = listening(serve)
    assert ask(path, Ping(), Pong, SHORT_SECONDS) == NoAnswer(SHORT_SECONDS)
    ended.set()


def test_a_full_queue_is_waited_for_until_the_deadline(tmp_path):
    path = tmp_path / "state"
    path.touch()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(socket_of(path)))
        listener.listen(0)
        with socket.socket(socket.AF_UNIX) as first:
            first.connect(str(socket_of(path)))
            assert ask(path, Ping(), Pong, SHORT_SECONDS) == NoAnswer(SHORT_SECONDS)


def test_where_there_is_no_socket_or_nobody_listens_is_told(tmp_path):
    path = tmp_path / "state"
    path.touch()
    assert ask(path, Ping(), Pong) == NoSocket("No such file or directory")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(socket_of(path)))
    assert ask(path, Ping(), Pong) == NoSocket("Connection refused")
    socket_of(path).unlink()
    socket_of(path).touch()
    assert ask(path, Ping(), Pong) == NoSocket("Connection refused")


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
def test_another_user_is_denied(listening, tmp_path):
    path = listening(saying(PONG))
    for directory in (tmp_path, *tmp_path.parents[:-2]):
        directory.chmod(0o755)
    os.seteuid(65534)
    try:
        found = ask(path, Ping(), Pong, DEADLINE_SECONDS)
    finally:
        os.seteuid(0)
    assert found == Denied("Permission denied")


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
def test_another_users_socket_is_not_believed(tmp_path):
    path = tmp_path / "state"
    path.touch()
    os.chown(tmp_path, 65534, -1)
    for directory in tmp_path.parents[:-2]:
        directory.chmod(0o755)
    os.seteuid(65534)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(socket_of(path)))
            listener.listen()
            os.seteuid(0)
            assert ask(path, Ping(), Pong) == NoSocket("user 65534 listens there, a stranger")
    finally:
        os.seteuid(0)
