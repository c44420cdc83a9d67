"""Which resources the kernel has run out of, and what to do; pure."""

from __future__ import annotations

import errno

SCARCE = {
    errno.EAGAIN: "raise the container's limit of pids, or ulimit -u",
    errno.ENOMEM: "give the container more memory",
    errno.EMFILE: "raise ulimit -n",
    errno.ENFILE: "raise fs.file-max",
}
"""The errors for lack of room for another process or file, and what to do."""


class NoThread(Exception):
    """The machine has no room for another thread; the text says what to do."""

    def __init__(self) -> None:
        super().__init__(f"the machine has no room for another thread: {SCARCE[errno.EAGAIN]}")


def scarcity(error: BaseException) -> str | None:
    """Which resource is missing, and what to do; None for any other error."""
    if isinstance(error, NoThread):
        return str(error)
    if not isinstance(error, OSError) or error.errno not in SCARCE:
        return None
    return f"{error.strerror}; {SCARCE[error.errno]}"
