"""What /proc reads from the memory of a process (cmdline, environ), which may not answer.

The kernel takes the lock of its address space for that, and a process that is stuck in a driver may
hold it. The waiting thread is left behind, and only one for each file.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

from ascend_supervisor.errors import Unavailable

ANSWER_SECONDS = 1.0


class ProcessMemory:
    """``read`` runs in a thread, and may take ``seconds``."""

    def __init__(self, read: Callable[[Path], bytes], seconds: float = ANSWER_SECONDS) -> None:
        self._read = read
        self._seconds = seconds
        self._stuck: set[Path] = set()
        self._lock = threading.Lock()

    def read(self, path: Path) -> bytes:
        """Its bytes; raises OSError, and TimeoutError at once while an earlier read is stuck."""
        from ascend_supervisor.tasks.threads import start_thread  # noqa: PLC0415  (slow: for ctl)

        if path in self._stuck:
            raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT), str(path))
        answers: list[bytes | OSError] = []
        answered = threading.Event()

        def ask() -> None:
            try:
                answers.append(self._read(path))
            except OSError as error:
                answers.append(error)
            finally:
                with self._lock:
                    answered.set()
                    self._stuck.discard(path)

        try:
            start_thread(ask, "process memory")
        except Unavailable:  # no room for a thread
            return self._read(path)
        answered.wait(self._seconds)
        with self._lock:
            if not answered.is_set():
                self._stuck.add(path)
                raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT), str(path))
        (answer,) = answers
        if isinstance(answer, OSError):
            raise answer
        return answer
