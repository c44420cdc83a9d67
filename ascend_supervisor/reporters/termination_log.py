"""The root cause in the container's termination log, which kubelet reads.

The file is the container's own. Of the starts in it the last one that ran a job counts: it empties
the file and holds it, so that a second start that is refused leaves it alone. Where none has told
the end of a job, the last refusal counts. Everything here but the fold may block on the disk.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ascend_supervisor.events import Event, Report
from ascend_supervisor.events.supervisor import ExitLingering, SupervisorExited
from ascend_supervisor.files.regular_file import close_quietly, open_regular_file, open_to_write
from ascend_supervisor.imports import mark_refusal, tells_refusal
from ascend_supervisor.phrases import QUOTED

USUAL = Path("/dev/termination-log")
MODE = 0o644
MOST_BYTES = 4096
"""Kubernetes reads no more than this."""


def place_of(explicit: Path | None) -> Path | None:
    """Where it is; None if there is none."""
    return explicit or (USUAL if os.path.lexists(USUAL) else None)


def termination_log(put: Callable[[bytes], None]) -> Report:
    """A report that passes the root cause of a failure to ``put``, and nothing on success."""

    def report(event: Event) -> None:
        if isinstance(event, (ExitLingering, SupervisorExited)) and event.exit_code:
            cause = event.root_cause or event.msg
            put(_in_full(event, cause) if isinstance(event, SupervisorExited) else text_of(cause))

    return report


def _in_full(event: SupervisorExited, cause: str) -> bytes:
    if event.explanation_leads:
        return text_of(cause, event.explained, event.trained)
    return text_of(cause, None, "\n".join(filter(None, (event.trained, event.explained))) or None)


def text_of(cause: str, before: str | None = None, after: str | None = None) -> bytes:
    """``cause`` as the file holds it, between texts that are kept whole.

    If there is no room, the earliest of the rank's lines are left out, then the end.
    """
    first, last = (b"" if line is None else _line_of(line) for line in (before, after))
    room = max(0, MOST_BYTES - len(first) - len(last))
    head, title, rest = cause.partition(f"\n{QUOTED}")
    place, *lines = rest.split("\n")
    text = _line_of(cause)
    while len(text) > room and len(lines) > 1:
        del lines[0]
        text = _line_of("\n".join((f"{head}{title}{place}", *lines)))
    if len(text) > room:
        text = text[: room - 1].decode(errors="ignore").encode() + b"\n"
    return first + text + last


def _line_of(text: str) -> bytes:
    return f"{text}\n".encode(errors="backslashreplace")


def hold(path: Path) -> None:
    """Keep the file until this process ends, so that no start that is refused writes to it.

    What an earlier start has told is removed: it would be taken for the end of this one. Best
    effort: what cannot be locked is not held.
    """
    with suppress(OSError):
        descriptor = open_regular_file(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # another job runs here
            close_quietly(descriptor)
            return
        except OSError:
            close_quietly(descriptor)
        if path.stat().st_size:
            write_termination_log(path, b"")


def write_termination_log(path: Path, text: bytes) -> None:
    """Overwrite in place: the file is a mount, it cannot be replaced. Raises OSError."""
    descriptor, _ = open_to_write(path, 0, MODE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(text)
        if _is_regular(descriptor):  # a pipe or a device has no length
            file.truncate()


def write_refusal(path: Path, text: bytes) -> None:
    """Write why a start was refused, unless somebody holds the file or has written to it.

    What it says of an earlier refusal is replaced, where the file system lets us see that. Raises
    OSError.
    """
    descriptor, _ = open_to_write(path, 0, MODE)
    with os.fdopen(descriptor, "wb") as file:
        if _is_regular(descriptor):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            except OSError:  # no locks here: the size must do
                pass
            if os.fstat(descriptor).st_size and not tells_refusal(descriptor):
                return
            file.truncate()
        file.write(text)
        file.flush()
        mark_refusal(descriptor)


def _is_regular(descriptor: int) -> bool:
    return stat.S_ISREG(os.fstat(descriptor).st_mode)
