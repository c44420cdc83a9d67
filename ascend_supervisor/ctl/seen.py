"""What one look at a supervisor finds: its state file, and what it answers through its socket.

It is asked for a limited time.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, ValidationError, convert
from msgspec.structs import asdict

from ascend_supervisor.control.protocol import (
    MOST_ANSWER_BYTES,
    AnsweredNo,
    AskStatus,
    NotUnderstood,
    Request,
    answer_of,
    request_line,
    socket_beside,
)
from ascend_supervisor.control.status_answer import LiveStatus
from ascend_supervisor.ctl.state import State, read_state_file
from ascend_supervisor.files.socket_file import connect
from ascend_supervisor.files.to_json import to_json
from ascend_supervisor.files.untrusted_json import parse_json
from ascend_supervisor.reporters.status_document import Status
from ascend_supervisor.untrusted_text import plain, printable

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


LITTLE_BYTES = 64 * 1024
"""A state file of many ranks, and the directory's own block, may not fit in less."""


class Seen(Struct, frozen=True):
    """``live`` is None if the supervisor gave no answer; ``trouble`` says why if it should have."""

    state: State
    live: LiveStatus | None = None
    trouble: str = ""

    @property
    def status(self) -> Status:
        """The supervisor's own, which is newer than its file, else that of the file."""
        return self.state.status if self.live is None else self.live.status

    @property
    def is_final(self) -> bool:
        return self.live is None and self.state.is_final


def look_at(state: State, seconds: float = ANSWER_SECONDS) -> Seen:
    """The supervisor of ``state``, which may take so many seconds to answer.

    It is asked even if its process is not to be seen: it may run in another container.
    """
    if state.status.phase == "ended":
        return Seen(state)
    try:
        answer = ask(state.path, AskStatus(), LiveStatus, seconds)
    except (AnsweredNo, NotUnderstood) as error:
        return Seen(state, trouble=f"{state.description} gave no live figures: {error}")
    if isinstance(answer, LiveStatus):
        return Seen(state, answer)
    return _without_answer(read_state_file(state.path), answer)


def _without_answer(state: State, how: Unanswered) -> Seen:
    """An earlier version has no socket, and runs well."""
    if state.status.phase == "ended":
        return Seen(state)
    if not isinstance(how, NoSocket):
        return Seen(state, trouble=unanswered(state, how))
    loss = f"{state.loss}: all of this was so when it wrote that file last"
    return Seen(state, trouble=f"{loss}{_full_disk(state.path)}" if state.left_behind else "")


def _full_disk(path: Path) -> str:
    """That there is no room for another state file: it may have ended in order, and said so."""
    with suppress(OSError):
        space = os.statvfs(path)
        if space.f_bavail * space.f_frsize < LITTLE_BYTES:
            directory = plain(str(path.parent))
            return (
                f"; the disk of {directory} is full: if it has ended in order, only its console "
                "(kubectl logs) and the termination log say so"
            )
    return ""


def look_again(path: Path, seconds: float) -> Seen:
    """The same of the supervisor with the state file at ``path``; raises StateUnknown."""
    return look_at(read_state_file(path), seconds)


def unanswered(state: State, how: Unanswered) -> str:
    """The sentence about a supervisor that runs, but could not be asked."""
    match how:
        case NoSocket(reason=reason):
            return (
                f"{state.description} has no control socket {plain(str(socket_of(state.path)))} "
                f"({reason}): it is of an earlier version, or the file system holds no sockets"
            )
        case Denied(reason=reason):
            return (
                f"{state.description} answers only its own user and root ({reason}); ask as one "
                "of them"
            )
        case NoAnswer(seconds=seconds):
            why = (
                f"it was stopped (SIGSTOP); kill -CONT {state.status.pid} continues it"
                if state.is_stopped
                else "it has too much to do, or was stopped"
            )
            return (
                f"{state.description} did not answer within {seconds:g} s: {why} "
                f"(state file {plain(str(state.path))})"
            )


def as_document(seen: Seen) -> Mapping[str, Any]:
    """What the state file holds, and the live figures as ``live``: null without an answer."""
    if seen.live is None:
        return {**parse_json(seen.state.content).value, "live": None}
    figures = asdict(seen.live)
    del figures["status"]
    return {**asdict(seen.live.status), "live": figures}


def as_json(seen: Seen, *, indent: bool = True) -> bytes:
    return to_json(as_document(seen), indent=indent) + b"\n"
