"""Asks a supervisor through the control socket beside its state file, and waits a limited time."""

from __future__ import annotations

import errno
import os
import socket
import struct
import time
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, ValidationError, convert

from ascend_supervisor.control.protocol import (
    MOST_ANSWER_BYTES,
    NotUnderstood,
    Request,
    answer_of,
    request_line,
    socket_beside,
)
from ascend_supervisor.files.socket_file import connect
from ascend_supervisor.untrusted_text import printable

ANSWER_SECONDS = 5.0
"""How long an answer may take that comes at once from a supervisor that runs."""
_AGAIN_SECONDS = 0.05
_PIECE_BYTES = 64 * 1024
_CREDENTIALS = struct.Struct("iII")
"""struct ucred of unix(7): pid, uid, gid."""

T = TypeVar("T", bound=Struct)


class NoSocket(Struct, frozen=True):
    """Nobody listens there: ``reason`` is the error of the system."""

    reason: str


class Denied(Struct, frozen=True):
    """This user may not connect: ``reason`` is the error of the system."""

    reason: str


class NoAnswer(Struct, frozen=True):
    """Somebody listens, but there was no whole answer within so many ``seconds``."""

    seconds: float


Unanswered = NoSocket | Denied | NoAnswer


def socket_of(state_file: Path) -> Path:
    """The control socket of the supervisor with this state file."""
    return Path(socket_beside(state_file))


def ask(
    state_file: Path, request: Request, kind: type[T], seconds: float = ANSWER_SECONDS
) -> T | Unanswered:
    """The answer to ``request``, which must be of this ``kind``.

    Raises AnsweredNo if the supervisor declines, and NotUnderstood for any other answer.
    """
    line = _exchange(state_file, request_line(request), seconds)
    if not isinstance(line, bytes):
        return line
    try:
        return convert(answer_of(line).value, kind)
    except ValidationError as error:
        raise NotUnderstood(f"the answer of the supervisor: {printable(str(error))}") from error


def _exchange(state_file: Path, line: bytes, seconds: float) -> bytes | Unanswered:
    end = time.monotonic() + seconds
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        try:
            _connect(client, socket_of(state_file), end)
            _refuse_strangers(client, state_file)
            with suppress(BrokenPipeError):  # it was declined unread: the reason is there to read
                client.sendall(line)
            answer = _line(client, end)
        except PermissionError as error:
            return Denied(error.strerror or str(error))
        except (TimeoutError, ConnectionResetError):
            return NoAnswer(seconds)
        except OSError as error:
            return NoSocket(error.strerror or str(error))
    return answer or NoAnswer(seconds)


def _connect(client: socket.socket, path: Path, end: float) -> None:
    """Raises TimeoutError at ``end`` (monotonic seconds)."""
    while True:
        _wait_until(client, end)
        try:
            connect(client, path)
        except BlockingIOError:  # too many connections wait; a time-out does not cover this
            time.sleep(_AGAIN_SECONDS)
        else:
            return


def _refuse_strangers(client: socket.socket, state_file: Path) -> None:
    """Raise OSError if another user listens than the one that the state file belongs to."""
    found = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    uid = _CREDENTIALS.unpack(found)[1]
    if uid not in {0, os.geteuid(), state_file.stat().st_uid}:
        raise ConnectionRefusedError(errno.ECONNREFUSED, f"user {uid} listens there, a stranger")


def _line(client: socket.socket, end: float) -> bytes:
    """What is answered up to the first newline, or nothing if the connection ends before it."""
    received = bytearray()
    while not received.endswith(b"\n"):
        _wait_until(client, end)
        piece = client.recv(_PIECE_BYTES)
        received += piece
        if not piece or len(received) > MOST_ANSWER_BYTES:
            return b""
    return bytes(received)


def _wait_until(client: socket.socket, end: float) -> None:
    """Let the next call take until ``end``; raises TimeoutError if that has passed."""
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError
    client.settimeout(left)
