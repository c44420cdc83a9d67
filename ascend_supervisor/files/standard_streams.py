"""Our stdout and stderr as a short command has them: everything is written before it ends.

A supervisor that runs does not write here: whoever reads it may stop reading (see ``console``).
"""

from __future__ import annotations

import errno
import os
import select
import sys
from contextlib import suppress

from ascend_supervisor.errors import CannotWrite

STDOUT, STDERR = 1, 2


def put(content: bytes) -> None:
    """Write all of ``content`` to stdout.

    Raises CannotWrite, or BrokenPipeError where nobody reads it any more.
    """
    if sys.stdout is None:  # closed before we began; the descriptor is /dev/null or somebody else's
        raise CannotWrite(f"stdout cannot be written: {os.strerror(errno.EBADF)}")
    try:
        _write(STDOUT, content)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CannotWrite(f"stdout cannot be written: {error.strerror}") from error


def tell(sentence: str) -> None:
    """Write one line to stderr, where there is one."""
    if sys.stderr is not None:
        with suppress(OSError):
            _write(STDERR, f"{sentence}\n".encode(errors="backslashreplace"))


def _write(descriptor: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        try:
            left = left[os.write(descriptor, left) :]
        except BlockingIOError:  # somebody else has made it non-blocking
            select.select([], [descriptor], [])
