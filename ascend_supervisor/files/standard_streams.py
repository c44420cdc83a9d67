"""Our stdout and stderr as a short command has them: everything is written before it ends.

A running supervisor does not use this, because its reader may stop reading (see ``console``).
"""

from __future__ import annotations

import errno
import os
import select
import sys
from contextlib import suppress

STDOUT, STDERR = 1, 2


class StdoutLost(Exception):
    """Nothing can be written to stdout any more; the text says why."""


def put(content: bytes) -> None:
    """Write all of ``content`` to stdout.

    Raises StdoutLost, or BrokenPipeError if the reader is gone.
    """
    if sys.stdout is None:  # closed before we began; the descriptor is /dev/null or somebody else's
        raise closed_stdout()
    try:
        _write(STDOUT, content)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise StdoutLost(f"stdout cannot be written: {error.strerror}") from error


def closed_stdout() -> StdoutLost:
    return StdoutLost(f"stdout cannot be written: {os.strerror(errno.EBADF)}")


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
        except BlockingIOError:  # another process made it non-blocking
            select.select([], [descriptor], [])
