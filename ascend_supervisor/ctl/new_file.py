"""A file that an operator names: all of it is written, or nothing.

One that is written piece by piece has its name when it is whole, and not before.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

from ascend_supervisor.errors import CannotWrite
from ascend_supervisor.files.regular_file import move_to, refuse_to_replace, write_atomically
from ascend_supervisor.untrusted_text import plain

PUBLIC_MODE = 0o644


def replace_document(path: Path, document: bytes) -> None:
    """Write all of ``document`` to ``path``, or nothing; raises CannotWrite.

    A link stays, and its target is replaced. Anything that is not a file stays as it is.
    """
    try:
        write_atomically(target_of(path), document, PUBLIC_MODE)
    except OSError as error:
        reason = error.strerror or str(error)
        raise CannotWrite(f"{plain(str(path))} cannot be written: {reason}") from error


def target_of(path: Path) -> Path:
    """The file that an operator means by ``path``; raises OSError if it must not be replaced."""
    if path.is_symlink() and path.parent.resolve().parts[:2] in (("/", "dev"), ("/", "proc")):
        raise OSError(errno.EINVAL, "it is an open file; for stdout use -o -")
    with suppress(FileNotFoundError):  # the file that is to be made
        path.stat()  # raises for a link to itself; resolve no longer does
    return path.resolve()


MODE = 0o600
O_TMPFILE: int = getattr(os, "O_TMPFILE", 0)
"""0 if Python was built for glibc before 2.19: a directory cannot be opened so."""
ELSEWHERE = "give another place with -o, or write to stdout with -o -"


class NotWritten(Exception):
    """The file that is written has failed, and none that is read; the text says how."""


@contextmanager
def new_file(path: Path) -> Iterator[Callable[[bytes], None]]:
    """What is put is in the file at ``path`` afterwards, for its owner only, or nothing is.

    Raises CannotWrite. A link stays, and its target is replaced; so is a regular file. Anything
    else stays as it is.
    """
    try:
        target = target_of(path)
        refuse_to_replace(target)
        descriptor, name = _opened(target)
    except OSError as error:
        raise _cannot(path, error.strerror or str(error)) from error
    try:
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            yield lambda content: _write(file.fileno(), content)
            _publish(file.fileno(), name, target)
    except NotWritten as error:
        raise _cannot(path, str(error)) from error
    finally:
        with suppress(OSError):
            name.unlink()


def _opened(target: Path) -> tuple[int, Path]:
    """A new file, and a name for it before it has its own.

    It has none where the file system allows that: then nothing is left of it, whatever kills us.
    """
    directory = target.parent
    with suppress(OSError):
        descriptor = os.open(directory, O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, MODE)
        return descriptor, directory / f".{target.name[:200]}.{token_hex(4)}"
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name[:200]}.", dir=directory)
    return descriptor, Path(name)


def _publish(descriptor: int, name: Path, target: Path) -> None:
    try:
        if not os.fstat(descriptor).st_nlink:
            # Only with a directory of its source, which does not count, does link follow it.
            os.link(f"/proc/self/fd/{descriptor}", name, src_dir_fd=descriptor)
        move_to(name, target)
    except OSError as error:
        raise NotWritten(error.strerror or str(error)) from error


def _write(descriptor: int, content: bytes) -> None:
    left = memoryview(content)
    try:
        while left:
            left = left[os.write(descriptor, left) :]
    except OSError as error:
        raise NotWritten(error.strerror or str(error)) from error


def _cannot(path: Path, reason: str) -> CannotWrite:
    return CannotWrite(f"{plain(str(path))} cannot be written: {reason}; {ELSEWHERE}")
