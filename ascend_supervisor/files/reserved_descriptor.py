"""A reserved file descriptor, for necessary writes when no other descriptor is left."""

from __future__ import annotations

import errno
import os
import resource
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path

NONE_LEFT = frozenset({errno.EMFILE, errno.ENFILE})
TRIES = 50
PAUSE_SECONDS = 0.02
"""Another thread may take the descriptor that was just released; usually for a short time."""


class Reserve:
    """Holds one descriptor. Making one raises OSError."""

    def __init__(self) -> None:
        self._descriptor = _any_descriptor()
        self._turn = threading.Lock()

    def ensure(self, write: Callable[[], None]) -> None:
        """Call ``write``, which needs one descriptor; if none was left, release ours and retry.

        Raises OSError. May block.
        """
        try:
            write()
        except OSError as error:
            if error.errno not in NONE_LEFT:
                raise
        else:
            return
        with self._turn, self.lent():
            _try_again(write)

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Release the descriptor meanwhile, for any open call in this process."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1
        try:
            yield
        finally:
            if self._descriptor < 0:
                with suppress(OSError):
                    self._descriptor = _any_descriptor()


def free_descriptors() -> float:
    """How many more this process may open; raises OSError if it cannot even look."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = sum(1 for _ in Path("/proc/self/fd").iterdir())
    return inf if most == resource.RLIM_INFINITY else most - taken


def _try_again(write: Callable[[], None]) -> None:
    for tries_left in reversed(range(TRIES)):
        try:
            return write()
        except OSError as error:
            if error.errno not in NONE_LEFT or not tries_left:
                raise
        time.sleep(PAUSE_SECONDS)
    raise AssertionError  # the last try returns or raises


def _any_descriptor() -> int:
    return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
