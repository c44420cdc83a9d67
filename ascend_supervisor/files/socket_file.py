"""A Unix socket with a name in a file system, however long its path is; its removal is noticed.

The kernel takes names of at most 107 bytes. So the socket gets a short name in its directory, which
is reached through a descriptor (/proc/self/fd/N/NAME), and is then renamed; a client opens the path
with O_PATH and connects to /proc/self/fd/N. All of this may block on the disk: it belongs in a
thread.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from ascend_supervisor.files.directories import make_directories

SOCKET_MODE = 0o600
"""Connecting takes the permission to write."""
BACKLOG = 512
"""Clients that wait their turn; one more is told EAGAIN, or waits, as it likes."""


class SocketFile(Struct, frozen=True):
    """The file of a socket: this one as long as it has this device and inode."""

    path: Path
    device: int
    inode: int

    def remove(self) -> None:
        """Remove it, unless another file has taken its place."""
        with suppress(OSError):
            if _identity(self.path.lstat()) == (self.device, self.inode):
                self.path.unlink()


class ListeningSocket:
    """A stream ``socket``, not blocking, that listens at a path until ``remove``."""

    def __init__(self, listener: socket.socket, file: SocketFile) -> None:
        self.socket = listener
        self._file = file

    @classmethod
    def at(cls, path: Path) -> ListeningSocket:
        """Raises OSError, as ``bind_at`` does."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.settimeout(0)
            return cls(listener, bind_at(listener, path))
        except BaseException:
            listener.close()
            raise

    def remove(self) -> None:
        """Close it, and remove its file unless another one has taken its place."""
        self.socket.close()
        self._file.remove()


def bind_at(made: socket.socket, path: Path) -> SocketFile:
    """Bind ``made`` at ``path`` with SOCKET_MODE, whatever the umask is; a stream socket listens.

    Makes the directory, and replaces a socket that nobody listens at. Raises OSError if the file
    system holds no sockets, or if something else is there.
    """
    make_directories(path.parent)
    with _opened(path.parent) as directory:
        _refuse_others(directory, path, made.type)
        return SocketFile(path, *_bound(made, directory, path.name))


def connect(client: socket.socket, path: Path) -> None:
    """Connect to the socket at ``path``; raises OSError.

    While its backlog is full, a socket with a time-out of Python's gets BlockingIOError at once;
    one that blocks waits, for as long as its SO_SNDTIMEO.
    """
    with _opened(path, directory=False) as found:
        client.connect(f"/proc/self/fd/{found}")


def _bound(made: socket.socket, directory: int, name: str) -> tuple[int, int]:
    """Bind it to ``name``, where it is never found without listening; gives device and inode."""
    short = f".{os.urandom(8).hex()}"
    os.fchmod(made.fileno(), SOCKET_MODE)  # the file gets this mode
    made.bind(f"/proc/self/fd/{directory}/{short}")
    try:
        with suppress(OSError):  # it can only add what the umask took away
            os.chmod(short, SOCKET_MODE, dir_fd=directory)
        if made.type == socket.SOCK_STREAM:
            made.listen(BACKLOG)
        identity = _identity(os.stat(short, dir_fd=directory, follow_symlinks=False))
        os.rename(short, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(OSError):
            os.unlink(short, dir_fd=directory)
        raise
    return identity  # what has this name may be gone again


def _refuse_others(directory: int, path: Path, kind: socket.SocketKind) -> None:
    """Raise OSError unless there is nothing, or a socket that nobody listens at."""
    try:
        found = os.stat(path.name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise FileExistsError(errno.EEXIST, "something that is not a socket is there", str(path))
    with socket.socket(socket.AF_UNIX, kind) as client:
        client.settimeout(0)
        try:
            connect(client, path)
        except (ConnectionRefusedError, FileNotFoundError):
            return
        except BlockingIOError:  # its backlog is full
            pass
    raise OSError(errno.EADDRINUSE, "another process listens there", str(path))


@contextmanager
def _opened(path: Path, *, directory: bool = True) -> Iterator[int]:
    """A descriptor that only names ``path``."""
    kind = os.O_DIRECTORY if directory else os.O_NOFOLLOW
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC | kind)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino
