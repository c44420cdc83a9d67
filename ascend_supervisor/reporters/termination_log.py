"""The root cause in the container's termination log, which kubelet reads."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from ascend_supervisor.events import Event, Report
from ascend_supervisor.events.supervisor import ExitLingering, SupervisorExited

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
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, MODE), "wb") as file:
        file.write(text)
        file.truncate()
