"""Files in /proc that read the memory of a process (cmdline, environ), and so may not answer.

The kernel takes the lock of its address space for that, and a process that is stuck in a driver may
hold it. The waiting thread is abandoned; there is only one for each file.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from ascend_supervisor.scarcity import NoThread

if TYPE_CHECKING:
    from ascend_supervisor.tasks.threads import Call

ANSWER_SECONDS = 1.0
BytesOrError = bytes | OSError
"""What a file holds, or why it cannot be read."""


class ProcessMemory:
    """``read`` may take ``seconds`` for a file; of each file, one read may be stuck.

    No SlowFiles: a Call reads many files, because one for each took eight times as long.
    """

    def __init__(self, read: Callable[[Path], bytes], seconds: float = ANSWER_SECONDS) -> None:
        self._read = read
        self._seconds = seconds
        self._stuck: dict[Path, Call[list[BytesOrError]]] = {}

    def read_all(self, paths: Sequence[Path]) -> list[BytesOrError]:
        """The bytes of each, or why not: TimeoutError at once while an earlier read is stuck."""
        found: list[BytesOrError] = []
        while len(found) < len(paths):
            found += self._read_some(paths[len(found) :])
        return found

    def _read_some(self, paths: Sequence[Path]) -> list[BytesOrError]:
        """The first of them, at least one, up to one that does not answer."""
        from ascend_supervisor.tasks.threads import Call  # noqa: PLC0415  (slow: for ctl)

        free = list(takewhile(lambda path: not self._is_stuck(path), paths))
        if not free:
            return [_no_answer(paths[0])]
        batch = _Batch(free, self._read)
        call = Call(batch.run)
        while not call.wait(batch.began + self._seconds - time.monotonic()):
            if batch.abandoned(self._seconds):
                path = free[len(batch.found)]
                self._stuck[path] = call
                return [*batch.found, _no_answer(path)]
        try:
            return call.answer
        except NoThread:
            return [_content(self._read, free[0])]

    def _is_stuck(self, path: Path) -> bool:
        call = self._stuck.get(path)
        return call is not None and not call.is_done


class _Batch:
    """Files that are read one after the other; ``began`` is when the latest read did."""

    def __init__(self, paths: Sequence[Path], read: Callable[[Path], bytes]) -> None:
        self.found: list[BytesOrError] = []
        self.began = time.monotonic()
        self._paths = paths
        self._read = read
        self._is_abandoned = False
        self._lock = threading.Lock()

    def run(self) -> list[BytesOrError]:
        for path in self._paths:
            content = _content(self._read, path)
            with self._lock:
                if self._is_abandoned:
                    break
                self.found.append(content)
                self.began = time.monotonic()
        return self.found

    def abandoned(self, seconds: float) -> bool:
        """Whether the file after those ``found`` takes so long; then no other is read."""
        with self._lock:
            is_whole = len(self.found) == len(self._paths)
            self._is_abandoned = not is_whole and time.monotonic() - self.began >= seconds
            return self._is_abandoned


def _content(read: Callable[[Path], bytes], path: Path) -> BytesOrError:
    try:
        return read(path)
    except OSError as error:
        return error


def _no_answer(path: Path) -> TimeoutError:
    return TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT), str(path))
