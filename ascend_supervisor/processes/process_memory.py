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
from queue import SimpleQueue

from ascend_supervisor.scarcity import NoThread

ANSWER_SECONDS = 1.0
BytesOrError = bytes | OSError
"""What a file holds, or why it cannot be read."""


class ProcessMemory:
    """``read`` runs in a thread and may take ``seconds``; a thread that returns is reused."""

    def __init__(self, read: Callable[[Path], bytes], seconds: float = ANSWER_SECONDS) -> None:
        self._read = read
        self._seconds = seconds
        self._stuck: set[Path] = set()
        self._idle: list[_ReaderThread] = []
        self._lock = threading.Lock()

    def read(self, path: Path) -> bytes:
        """Its bytes; raises OSError, and TimeoutError at once while an earlier read is stuck."""
        (content,) = self.read_all((path,))
        if isinstance(content, OSError):
            raise content
        return content

    def read_all(self, paths: Sequence[Path]) -> list[BytesOrError]:
        """The same for many files: handing each to the thread alone took eight times as long."""
        found: list[BytesOrError] = []
        while len(found) < len(paths):
            found += self._read_some(paths[len(found) :])
        return found

    def _read_some(self, paths: Sequence[Path]) -> list[BytesOrError]:
        """The first of them, at least one, up to one that does not answer."""
        free = list(takewhile(lambda path: path not in self._stuck, paths))
        if not free:
            return [_no_answer(paths[0])]
        try:
            reader = self._reader()
        except NoThread:
            return [_content(self._read, free[0])]
        batch = _Batch(free)
        reader.requests.put(lambda: self._serve(reader, batch))
        while not batch.is_over.wait(batch.began + self._seconds - time.monotonic()):
            with self._lock:
                if batch.is_stuck(self._seconds):
                    batch.is_abandoned = True
                    path = free[len(batch.found)]
                    self._stuck.add(path)
                    return [*batch.found, _no_answer(path)]
        return batch.found

    def _reader(self) -> _ReaderThread:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return _ReaderThread()

    def _serve(self, reader: _ReaderThread, batch: _Batch) -> None:
        for path in batch.paths:
            content = _content(self._read, path)
            with self._lock:
                if batch.is_abandoned:
                    self._stuck.discard(path)
                    break
                batch.add(content)
        with self._lock:
            self._idle.append(reader)
        batch.is_over.set()


class _Batch:
    """Files that are read one after the other; ``began`` is when the latest read did."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = paths
        self.found: list[BytesOrError] = []
        self.began = time.monotonic()
        self.is_over = threading.Event()
        self.is_abandoned = False

    def add(self, content: BytesOrError) -> None:
        self.found.append(content)
        self.began = time.monotonic()

    def is_stuck(self, seconds: float) -> bool:
        is_whole = len(self.found) == len(self.paths)
        return not is_whole and time.monotonic() - self.began >= seconds


class _ReaderThread:
    """A thread that serves requests. Making one raises NoThread."""

    def __init__(self) -> None:
        from ascend_supervisor.tasks.threads import start_thread  # noqa: PLC0415  (slow: for ctl)

        self.requests: SimpleQueue[Callable[[], None]] = SimpleQueue()
        start_thread(self._run, "process memory")

    def _run(self) -> None:
        while True:
            self.requests.get()()


def _content(read: Callable[[Path], bytes], path: Path) -> BytesOrError:
    try:
        return read(path)
    except OSError as error:
        return error


def _no_answer(path: Path) -> TimeoutError:
    return TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT), str(path))
