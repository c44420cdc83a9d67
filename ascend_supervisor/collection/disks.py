"""Files that are asked for with a deadline; a file server that is gone costs it once.

Links at the end of a path are not followed, and nothing but regular files is opened: others may
have planted what a job's directories hold.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from ascend_supervisor.files.regular_file import NotRegular, close_quietly
from ascend_supervisor.scarcity import NoThread
from ascend_supervisor.tasks.threads import Call

ANSWER_SECONDS = 10.0
MOST_ENTRIES = 200_000
"""How many entries of a directory are looked at."""
PIECE_BYTES = 1024 * 1024

T = TypeVar("T")


class FileEntry(Struct, frozen=True):
    """A regular file: its size in bytes, and when it was last written (Unix time, seconds)."""

    path: Path
    size: int
    mtime: float


class OpenFile(Struct, frozen=True):
    """A file as it was when it was opened."""

    path: Path
    descriptor: int
    size: int
    mtime: float


class Disks:
    """``owners``: a file that belongs to anybody else is refused; None allows all."""

    def __init__(
        self, owners: frozenset[int] | None = None, seconds: float = ANSWER_SECONDS
    ) -> None:
        self.owners = owners
        self._seconds = seconds
        self._silent: set[Path] = set()

    def ask(self, directory: Path, question: Callable[[], T]) -> T:
        """The answer; raises TimeoutError, which is an OSError, or what ``question`` raises.

        After a late answer, neither ``directory`` nor what is below it is asked again.
        """
        if not self._silent.isdisjoint((directory, *directory.parents)):
            raise _late(self._seconds)
        try:
            call = Call(question)
            if call.wait(self._seconds):
                return call.answer
        except NoThread:
            return question()
        except ValueError as error:  # NUL in the name: whoever told it is not to be trusted
            raise OSError(errno.EINVAL, "no file can have this name") from error
        self._silent.add(directory)
        raise _late(self._seconds)

    @contextmanager
    def opened(self, path: Path) -> Iterator[OpenFile]:
        """The file; raises NotRegular for anything else, and OSError."""
        file = self.ask(path.parent, partial(_open, path, self.owners))
        try:
            yield file
        finally:
            close_quietly(file.descriptor)

    def end_of(self, file: OpenFile, size: int) -> Iterator[bytes]:
        """The last ``size`` of the bytes that it had, in pieces; ends early where it fails."""
        at = file.size - size
        with suppress(OSError):
            while at < file.size:
                want = min(PIECE_BYTES, file.size - at)
                piece = self.ask(file.path.parent, partial(os.pread, file.descriptor, want, at))
                if not piece:  # it was truncated
                    return
                at += len(piece)
                yield piece

    def files_in(self, directory: Path) -> list[FileEntry]:
        """The regular files in it, in no order; raises OSError."""
        return self.ask(directory, partial(_files_in, directory))

    def directories_in(self, directory: Path) -> list[Path]:
        """The directories in it, in the order of their names; raises OSError."""
        return self.ask(directory, partial(_directories_in, directory))


def _late(seconds: float) -> TimeoutError:
    return TimeoutError(errno.ETIMEDOUT, f"its file system has not answered within {seconds:g} s")


def _open(path: Path, owners: frozenset[int] | None) -> OpenFile:
    """A device is not even opened: that may be an act, such as rewinding a tape."""
    mode = path.lstat().st_mode
    if not stat.S_ISREG(mode):
        raise NotRegular(mode)
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW
    descriptor = os.open(path, flags)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise NotRegular(found.st_mode)
        if owners is not None and found.st_uid not in owners:
            raise PermissionError(
                errno.EPERM, f"it belongs to user {found.st_uid}, and not to that of the job"
            )
    except OSError:
        close_quietly(descriptor)
        raise
    return OpenFile(path, descriptor, found.st_size, found.st_mtime)


def _files_in(directory: Path) -> list[FileEntry]:
    files = []
    with os.scandir(directory) as entries:
        for entry in islice(entries, MOST_ENTRIES):
            with suppress(OSError):  # it was removed meanwhile
                if entry.is_file(follow_symlinks=False):
                    found = entry.stat(follow_symlinks=False)
                    files.append(FileEntry(directory / entry.name, found.st_size, found.st_mtime))
    return files


def _directories_in(directory: Path) -> list[Path]:
    with os.scandir(directory) as entries:
        return sorted(
            directory / entry.name
            for entry in islice(entries, MOST_ENTRIES)
            if entry.is_dir(follow_symlinks=False)
        )
