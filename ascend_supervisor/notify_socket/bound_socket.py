"""The notify socket itself: bound to a file, or to an abstract name where no file will do."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePath
from struct import Struct as Layout

from msgspec import Struct

from ascend_supervisor.files.socket_file import SocketFile, bind_at

SUFFIX = ".notify"
LONGEST = 107
"""Bytes of a path that a client can connect to: sun_path has 108, unix(7), the last for a NUL."""
ABSTRACT = "@ascend_supervisor."
NAME_BYTES = 16


def file_beside(state_file: PurePath) -> PurePath | None:
    """The socket's file; None if its path is too long for clients."""
    path = state_file.with_name(state_file.name + SUFFIX)
    return path if len(str(path).encode(errors="surrogateescape")) <= LONGEST else None


def abstract_name(random: bytes) -> str:
    """A name without a file; ``@`` stands for the NUL byte in front."""
    return ABSTRACT + random.hex()


def planned_address(state_file: PurePath) -> str:
    """What NOTIFY_SOCKET will be, unless the file system refuses; nobody can know a random name."""
    path = file_beside(state_file)
    return f"{ABSTRACT}<random>" if path is None else str(path)


MESSAGE_BYTES = 64 * 1024
"""A longer message is ignored; systemd ignores those of more than 4 KiB."""
UCRED = Layout("3i")
"""struct ucred: pid, uid, gid; unix(7)."""


class Datagram(Struct, frozen=True):
    """A message; the kernel vouches for ``pid``. It is 0 for a process of another PID namespace."""

    pid: int
    text: bytes


class BoundSocket(Struct, frozen=True):
    """A socket that clients of sd_notify(3) find at ``address``."""

    socket: socket.socket
    address: str
    file: SocketFile | None = None

    def remove(self) -> None:
        """Close it, and remove its file; may block."""
        self.socket.close()
        if self.file is not None:
            self.file.remove()

    def datagrams(self, most: int) -> Iterator[Datagram]:
        """At most so many messages that have come; never blocks. Raises OSError.

        The buffer for what comes beside a message has room for credentials only. So the kernel
        closes every descriptor that was sent: none ever gets into this process.
        """
        room = socket.CMSG_SPACE(UCRED.size)
        for _ in range(most):
            try:
                text, beside, flags, _ = self.socket.recvmsg(MESSAGE_BYTES, room)
            except BlockingIOError:
                return
            pid = _sender(beside)
            if pid is not None and not flags & socket.MSG_TRUNC:
                yield Datagram(pid, text)


def _sender(beside: list[tuple[int, int, bytes]]) -> int | None:
    for level, kind, content in beside:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            pid: int = UCRED.unpack(content)[0]
            return pid
    return None


def bound_to_file(path: Path) -> BoundSocket:
    """A socket at ``path``, which a client has reached; raises OSError. May block.

    If somebody has removed it again by then, that is one more removal to be noticed, and no error.
    """
    made = _unbound()
    file: SocketFile | None = None
    try:
        file = bind_at(made, path)
        with suppress(FileNotFoundError):
            _connect(path)
    except BaseException:
        made.close()
        if file is not None:
            file.remove()
        raise
    return BoundSocket(made, str(path), file)


def _connect(path: Path) -> None:
    """Raise OSError where a file system keeps the file of a socket, but not the socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
        client.connect(str(path))


def bound_to_name() -> BoundSocket:
    """A socket whose name nobody can guess, in this network namespace; raises OSError."""
    made = _unbound()
    address = abstract_name(os.urandom(NAME_BYTES))
    try:
        made.bind("\0" + address.removeprefix("@"))
    except BaseException:
        made.close()
        raise
    return BoundSocket(made, address)


def _unbound() -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        made.setblocking(False)  # noqa: FBT003  (the name of the standard library)
        # Before it is bound: no message can come without the pid of its sender.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    except BaseException:
        made.close()
        raise
    return made
