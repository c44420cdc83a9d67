"""A Unix socket at a path: it replaces a socket of an earlier start, and no other file."""

from __future__ import annotations

import errno
import os
import socket
import stat
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from ascend_supervisor.files.directories import make_directories

SOCKET_MODE = 0o600
"""No other user may connect, unix(7)."""


class SocketFile(Struct, frozen=True):
    """The file of a socket, which is this one as long as it has this device and inode."""

    path: Path
    device: int
    inode: int

    def remove(self) -> None:
        """Remove it, unless another file has taken its place. May block."""
        with suppress(OSError):
            found = self.path.lstat()
            if (found.st_dev, found.st_ino) == (self.device, self.inode):
                self.path.unlink()


def bind_at(made: socket.socket, path: Path) -> SocketFile:
    """Bind at ``path``, however long it is, with SOCKET_MODE, whatever the umask is. May block.

    Makes the directory. Raises OSError, also if something that is no socket is there.
    """
    make_directories(path.parent)
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _refuse_other_files(path, directory)
        temporary = f".{os.urandom(8).hex()}"
        os.fchmod(made.fileno(), SOCKET_MODE)  # bind gives it to the file
        made.bind(f"/proc/self/fd/{directory}/{temporary}")
        return _moved(temporary, path, directory)
    finally:
        os.close(directory)


def _refuse_other_files(path: Path, directory: int) -> None:
    try:
        found = os.stat(path.name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise FileExistsError(errno.EEXIST, "something that is no socket is there", str(path))


def _moved(temporary: str, path: Path, directory: int) -> SocketFile:
    try:
        os.rename(temporary, path.name, src_dir_fd=directory, dst_dir_fd=directory)
    except OSError:
        os.unlink(temporary, dir_fd=directory)
        raise
    found = os.stat(path.name, dir_fd=directory, follow_symlinks=False)
    return SocketFile(path, found.st_dev, found.st_ino)
