"""Read a file that others may have planted: without blocking, and with a size limit."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def read_regular_file(path: Path | str, most: int) -> bytes:
    """The bytes of a regular file of at most ``most`` bytes; raises OSError for any other."""
    with os.fdopen(open_regular_file(path), "rb") as file:
        is_larger = (
            os.fstat(file.fileno()).st_size > most
        )  # in /proc, files say that they are empty
        content = b"" if is_larger else file.read(most + 1)
    if is_larger or len(content) > most:
        raise OSError(f"it is larger than {most} bytes")
    return content


def open_regular_file(path: Path | str) -> int:
    """A descriptor to read a regular file; raises OSError for any other kind."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    raise OSError("it is a directory" if stat.S_ISDIR(mode) else "it is not a regular file")
