"""Which resources the kernel has run out of, and what to do; pure."""

from __future__ import annotations

import errno
from collections.abc import Sequence

from msgspec import Struct

MORE_THREADS = "raise the container's limit of pids, or ulimit -u"
MORE_MEMORY = "give the container more memory, and raise ulimit -v and ulimit -d if they are set"

SCARCE = {
    errno.EAGAIN: MORE_THREADS,
    errno.ENOMEM: MORE_MEMORY,
    errno.EMFILE: "raise ulimit -n",
    errno.ENFILE: "raise fs.file-max",
}
"""The errors for lack of room for another process or file, and what to do."""


class NoThread(Exception):
    """No thread can be started; the text says why, and what to do."""

    def __init__(
        self, why: str = f"the machine has no room for another thread: {MORE_THREADS}"
    ) -> None:
        super().__init__(why)


class NoWatch(OSError):
    """epoll_ctl(2) has no room for another descriptor; its ENOSPC is no disk's."""


def scarcity(error: BaseException) -> str | None:
    """Which resource is missing, and what to do; None for any other error."""
    if isinstance(error, NoThread):
        return str(error)
    if isinstance(error, MemoryError):
        return f"Cannot allocate memory; {MORE_MEMORY}"
    if isinstance(error, NoWatch):
        remedy = "raise fs.epoll.max_user_watches" if error.errno == errno.ENOSPC else MORE_MEMORY
        return f"no further descriptor can be watched (epoll_ctl: {error.strerror}); {remedy}"
    if not isinstance(error, OSError) or error.errno not in SCARCE:
        return None
    return f"{error.strerror}; {SCARCE[error.errno]}"


class MemoryShortage(Struct, frozen=True):
    """Memory that ran out; sizes in bytes.

    ``limit`` is that of the container (None: it has none), ``is_limit`` whether it was reached,
    ``machine`` what the machine has. ``had`` is the most that the process had which failed (None:
    it was another one that was killed), ``others`` are the largest that are left.
    """

    limit: int | None
    is_limit: bool
    machine: int
    had: int | None
    others: Sequence[tuple[str, int]]

    @property
    def sentence(self) -> str:
        """Where there was no room, who had it, and what to do."""
        parts = [self._where]
        if self.had is not None:
            parts.append(f"it had {_size(self.had)} at most")
        if self.others:
            parts.append(
                "the largest others: "
                + ", ".join(f"{name} {_size(had)}" for name, had in self.others)
            )
        return "; ".join((*parts, self._remedy))

    @property
    def _where(self) -> str:
        limit = "it has none" if self.limit is None else _size(self.limit)
        if self.is_limit:
            return f"the container's memory limit ({limit}) was reached"
        return (
            f"not the container's memory limit ({limit}) was reached: the machine had nothing left "
            f"of its {_size(self.machine)}, or the pod has a limit that was reached"
        )

    @property
    def _remedy(self) -> str:
        if self.is_limit:
            return "raise that limit, or use smaller batches or fewer data loader workers"
        return (
            "find out what else runs on the machine, and let the pod request the memory that it "
            "needs"
        )


def _size(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB" if size >= 1 << 30 else f"{size / (1 << 20):.0f} MiB"
