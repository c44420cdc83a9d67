"""A file descriptor in reserve, for what must be written although there is no other one left."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress

NONE_LEFT = frozenset({errno.EMFILE, errno.ENFILE})
TRIES = 50
PAUSE_SECONDS = 0.02
"""Another thread may take a descriptor that was just let go; mostly it gives it back soon."""


class Reserve:
    """Lends its descriptor to one thread at a time. Making one raises OSError."""

    def __init__(self) -> None:
        self._descriptor = _any_descriptor()
        self._turn = threading.Lock()

    def ensure(self, write: Callable[[], None]) -> None:
        """Call ``write``, which needs one descriptor; again, with ours, when there was none left.

        Raises OSError. May block.
        """
        try:
            write()
        except OSError as error:
            if error.errno not in NONE_LEFT:
                raise
        else:
            return
        with self._turn:
            try:
                self._lend(write)
            finally:
                self._take_back()

    def _lend(self, write: Callable[[], None]) -> None:
        for tries_left in reversed(range(TRIES)):
            self._let_go()
            try:
                return write()
            except OSError as error:
                if error.errno not in NONE_LEFT or not tries_left:
                    raise
            time.sleep(PAUSE_SECONDS)
        raise AssertionError  # the last try returns or raises

    def _let_go(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1

    def _take_back(self) -> None:
        if self._descriptor < 0:
            with suppress(OSError):
                self._descriptor = _any_descriptor()


def _any_descriptor() -> int:
    return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
