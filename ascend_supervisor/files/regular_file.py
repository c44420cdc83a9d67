"""Files that others may have planted, or whose disk fails: read without waiting, up to a limit.

Every failure of a system call is an OSError with a reason, whatever call it is; of a permission it
says to whom. What was read counts, even if the file cannot be closed. Where files are replaced,
only regular ones are, and readers see all of the old content or all of the new.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from ascend_supervisor.files.directories import make_directories

_PIECE = 1024 * 1024


class NotRegular(OSError):
    """Something else than a regular file is there."""

    def __init__(self, mode: int) -> None:
        self.is_directory = stat.S_ISDIR(mode)
        kind = kind_of(mode)
        what = f"it is {kind}" if self.is_directory else f"it is not a regular file, but {kind}"
        if stat.S_ISLNK(mode):
            what = f"it is {kind}; symbolic links are neither followed nor replaced"
        super().__init__(errno.EISDIR if self.is_directory else errno.EINVAL, what)


class TooLarge(OSError):
    """The file has more than the ``most`` bytes that were expected; ``size`` or more."""

    def __init__(self, size: int, most: int) -> None:
        super().__init__(errno.EFBIG, f"it is larger than {most} bytes")
        self.size = size


class Content(Struct, frozen=True):
    """The bytes of a file, whether it still has a name, and when it was written (Unix time)."""

    data: bytes
    has_name: bool
    written: float


def read_regular_file(path: Path | str, most: int) -> bytes:
    """The bytes of a regular file of at most ``most`` bytes; raises OSError for any other."""
    return content_of(path, most).data


def content_of(path: Path | str, most: int) -> Content:
    """The same, with what else is known of the file; raises NotRegular, TooLarge or OSError."""
    with opened(path) as descriptor:
        found = os.fstat(descriptor)
        if found.st_size > most:
            raise TooLarge(found.st_size, most)
        data = read_up_to(descriptor, most + 1)  # in /proc, files say that they are empty
    if len(data) > most:
        raise TooLarge(len(data), most)
    return Content(data, found.st_nlink > 0, found.st_mtime)


def read_up_to(descriptor: int, most: int) -> bytes:
    """What follows in an open file, at most so many bytes; raises OSError.

    Some files of /proc are pipes in truth. To wait for them is not wanted, and their EAGAIN is no
    lack of processes.
    """
    pieces: list[bytes] = []
    try:
        while most > 0 and (piece := os.read(descriptor, min(most, _PIECE))):
            pieces.append(piece)
            most -= len(piece)
    except BlockingIOError as error:
        raise OSError(errno.ENODATA, "it has nothing to be read now, as a pipe has") from error
    return b"".join(pieces)


def end_of(descriptor: int, most: int) -> bytes:
    """The last bytes of an open file, at most so many; raises OSError."""
    os.lseek(descriptor, max(os.lseek(descriptor, 0, os.SEEK_END) - most, 0), os.SEEK_SET)
    return read_up_to(descriptor, most)


@contextmanager
def opened(path: Path | str) -> Iterator[int]:
    """A descriptor to read a regular file; raises NotRegular, or OSError."""
    descriptor = open_regular_file(path)
    try:
        yield descriptor
    finally:
        close_quietly(descriptor)


def open_regular_file(path: Path | str) -> int:
    """A descriptor to read a regular file; raises NotRegular for any other kind, or OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise NotRegular(mode)
    except OSError:
        close_quietly(descriptor)
        raise
    return descriptor


def refuse_to_replace(path: Path) -> None:
    """Raise OSError if there is something at ``path`` that must not be replaced by a file.

    That is all but a regular file: as root, we could replace a device for the whole machine. A link
    is not followed, because others may have planted it, and not replaced, because others may have
    made it on purpose.
    """
    with suppress(FileNotFoundError):
        mode = path.lstat().st_mode
        if not stat.S_ISREG(mode):
            raise NotRegular(mode)


def move_to(source: Path, target: Path) -> None:
    """Rename ``source``; what is at ``target`` is replaced if it may be. Raises OSError."""
    refuse_to_replace(target)
    source.replace(target)


def open_to_write(path: Path, flags: int, mode: int) -> tuple[int, bool]:
    """A descriptor to write in place, and whether the file is new, made with ``mode``.

    A named pipe (that somebody reads) and a character device are written as they are. Links, block
    devices and sockets are refused: nobody means these. Raises OSError.
    """
    flags |= os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    try:
        return os.open(path, flags | os.O_CREAT | os.O_EXCL, mode), True
    except FileExistsError:
        found = path.lstat().st_mode
    if any(is_refused(found) for is_refused in (stat.S_ISLNK, stat.S_ISBLK, stat.S_ISSOCK)):
        raise NotRegular(found)
    return os.open(path, flags), False  # the kernel refuses a directory


def close_quietly(descriptor: int) -> None:
    """Close a file from which nothing more is read; a file server may fail to."""
    with suppress(OSError):
        os.close(descriptor)


def kind_of(mode: int) -> str:
    """What a file is, by its mode: ``a directory``."""
    kinds = (
        (stat.S_ISREG, "a regular file"),
        (stat.S_ISDIR, "a directory"),
        (stat.S_ISLNK, "a symbolic link"),
        (stat.S_ISFIFO, "a named pipe"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a character device"),
        (stat.S_ISBLK, "a block device"),
    )
    return next((name for is_kind, name in kinds if is_kind(mode)), "no file")


TRIES = 3
_RANDOM = re.compile(r"[a-z0-9_]{8}")
"""What tempfile puts at the end of a name."""


def write_atomically(path: Path, data: bytes, mode: int) -> None:
    """Replace ``path``, making its directory; raises OSError, and leaves nothing half-written.

    Raises NotRegular, which is an OSError, where something else than a regular file is. A file
    system without modes ignores ``mode``.
    """
    make_directories(path.parent)
    refuse_to_replace(path)
    for _ in range(TRIES - 1):
        with suppress(FileNotFoundError):  # another start removed our temporary file as a remnant
            _write(path, data, mode)
            return
    _write(path, data, mode)


def remove_remnants(path: Path) -> None:
    """Remove temporary files that killed writers of ``path`` left behind."""
    found: list[Path] = []
    with suppress(OSError):
        found += path.parent.iterdir()
    for other in found:
        before, _, random = other.name.rpartition(".")
        if before == f".{path.name}" and _RANDOM.fullmatch(random):
            with suppress(OSError):
                refuse_to_replace(other)
                other.unlink()


def _write(path: Path, data: bytes, mode: int) -> None:
    import tempfile  # noqa: PLC0415  (probes only read)

    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            with suppress(OSError):
                os.fchmod(file.fileno(), mode)
            file.write(data)
        move_to(Path(name), path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise


def reason_of(error: OSError) -> str:
    """The kernel's words; ``Permission denied for user 1000`` says who we are on the file system.

    In a container nobody knows by heart as which user it runs.
    """
    reason = error.strerror or str(error)
    return f"{reason} for user {os.geteuid()}" if isinstance(error, PermissionError) else reason
