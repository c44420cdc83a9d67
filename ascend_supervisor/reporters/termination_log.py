"""The root cause in the container's termination log, which kubelet reads."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from ascend_supervisor.events import Event, Report
from ascend_supervisor.events.supervisor import ExitLingering, SupervisorExited
from ascend_supervisor.files.regular_file import open_to_write

MODE = 0o644
MOST_BYTES = 4096
"""Kubernetes reads no more than this."""


def termination_log(put: Callable[[bytes], None]) -> Report:
    """A report that passes the root cause of a failure to ``put``, and nothing on success."""

    def report(event: Event) -> None:
        if isinstance(event, (ExitLingering, SupervisorExited)) and event.exit_code:
            text = f"{event.root_cause or event.msg}\n".encode(errors="backslashreplace")
            put(text[:MOST_BYTES].decode(errors="ignore").encode())

    return report


def write_termination_log(path: Path, text: bytes) -> None:
    """Overwrite in place: the file is a mount, it cannot be replaced. Raises OSError."""
    descriptor, _ = open_to_write(path, 0, MODE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(text)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):  # a pipe or a device has no length
            file.truncate()
