"""Asks a supervisor through the control socket beside its state file, and waits a limited time."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, ValidationError, convert

from ascend_supervisor.control.protocol import (
    MOST_ANSWER_BYTES,
    SUFFIX,
    NotUnderstood,
    Request,
    answer_of,
    request_line,
)
from ascend_supervisor.untrusted_text import printable

ANSWER_SECONDS = 5.0
"""How long an answer may take that comes at once from a supervisor that runs."""
_AGAIN_SECONDS = 0.05
_MOST_PATH_BYTES = 107
"""Of an address in unix(7), without the NUL at its end."""

T = TypeVar("T", bound=Struct)


class NoSocket(Struct, frozen=True):
    """Nobody listens there: ``reason`` is the error of the system."""

    reason: str


class Denied(Struct, frozen=True):
    """This user may not connect: ``reason`` is the error of the system."""

    reason: str


class Silent(Struct, frozen=True):
    """Somebody listens, but there was no whole answer within so many ``seconds``."""

    seconds: float


Unanswered = NoSocket | Denied | Silent


def socket_of(state_file: Path) -> Path:
    """The control socket of the supervisor with this state file."""
    return state_file.with_name(state_file.name + SUFFIX)


def ask(
    state_file: Path, request: Request, kind: type[T], seconds: float = ANSWER_SECONDS
) -> T | Unanswered:
    """The answer to ``request``, which must be of this ``kind``.

    Raises AnsweredNo if the supervisor declines, and NotUnderstood for any other answer.
    """
    line = _exchange(socket_of(state_file), request_line(request), seconds)
    if not isinstance(line, bytes):
        return line
    try:
        return convert(answer_of(line).value, kind)
    except ValidationError as error:
        raise NotUnderstood(f"the answer of the supervisor: {printable(str(error))}") from error


def _exchange(path: Path, line: bytes, seconds: float) -> bytes | Unanswered:
    end = time.monotonic() + seconds
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        try:
            with _address(path) as address:
                _connect(client, address, end)
            _wait_until(client, end)
            client.sendall(line)
            answer = _line(client, end)
        except PermissionError as error:
            return Denied(os.strerror(error.errno))
        except (TimeoutError, ConnectionResetError, BrokenPipeError):
            return Silent(seconds)
        except OSError as error:
            return NoSocket(error.strerror or str(error))
    return answer or Silent(seconds)


@contextmanager
def _address(path: Path) -> Iterator[str]:
    """An address of the socket at ``path``, which may be longer than an address."""
    if len(os.fsencode(path)) <= _MOST_PATH_BYTES:
        yield str(path)
        return
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _connect(client: socket.socket, address: str, end: float) -> None:
    """Raises TimeoutError at ``end`` (monotonic seconds)."""
    while True:
        _wait_until(client, end)
        try:
            client.connect(address)
        except BlockingIOError:  # too many connections wait; a time-out does not cover this
            time.sleep(_AGAIN_SECONDS)
        else:
            return


def _line(client: socket.socket, end: float) -> bytes:
    """What is answered up to the first newline, or nothing if the connection ends before it."""
    received = bytearray()
    while not received.endswith(b"\n"):
        _wait_until(client, end)
        piece = client.recv(MOST_ANSWER_BYTES)
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
