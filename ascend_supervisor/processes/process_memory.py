"""Files in /proc that read the memory of a process (cmdline, environ), and so may not answer.

The kernel takes the lock of its address space for that, and a process that is stuck in a driver may
hold it. The waiting thread is abandoned; there is only one for each file.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoAnswer
from pathlib import Path
from queue import SimpleQueue

from ascend_supervisor.scarcity import NoThread

ANSWER_SECONDS = 1.0


class ProcessMemory:
    """``read`` runs in a thread and may take ``seconds``; a thread that returns is reused."""

    def __init__(self, read: Callable[[Path], bytes], seconds: float = ANSWER_SECONDS) -> None:
        self._read = read
        self._seconds = seconds
        self._stuck: set[Path] = set()
        self._idle: list[_Reader] = []
        self._lock = threading.Lock()

    def read(self, path: Path) -> bytes:
        """Its bytes; raises OSError, and TimeoutError at once while an earlier read is stuck."""
        if path in self._stuck:
            raise _no_answer(path)
        answer: Future[bytes] = Future()
        try:
            reader = self._reader()
        except NoThread:
            return self._read(path)
        reader.requests.put(lambda: self._answer(reader, path, answer))
        try:
            return answer.result(self._seconds)
        except NoAnswer:
            with self._lock:
                if not answer.done():
                    self._stuck.add(path)
                    raise _no_answer(path) from None
            return answer.result()

    def _reader(self) -> _Reader:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return _Reader()

    def _answer(self, reader: _Reader, path: Path, answer: Future[bytes]) -> None:
        content: bytes | OSError
        try:
            content = self._read(path)
        except OSError as error:
            content = error
        with self._lock:
            self._stuck.discard(path)
            self._idle.append(reader)
            if isinstance(content, OSError):
                answer.set_exception(content)
            else:
                answer.set_result(content)


class _Reader:
    """A thread that serves requests. Making one raises NoThread."""

    def __init__(self) -> None:
        from ascend_supervisor.tasks.threads import start_thread  # noqa: PLC0415  (slow: for ctl)

        self.requests: SimpleQueue[Callable[[], None]] = SimpleQueue()
        start_thread(self._run, "process memory")

    def _run(self) -> None:
        while True:
            self.requests.get()()


def _no_answer(path: Path) -> TimeoutError:
    return TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT), str(path))
