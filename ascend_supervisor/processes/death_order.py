"""The order in which our children died, which waitpid does not report."""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from contextlib import suppress

PIDFD_OPEN: Callable[[int], int] | None = getattr(os, "pidfd_open", None)
"""None where Python was built for an older kernel."""


class DeathOrder:
    """Reports it if the kernel has pidfds (5.3) and we have file descriptors to spare.

    A pidfd becomes readable when its process dies, and epoll lists descriptors in the order in
    which they became readable. Without pidfds the list is empty.
    """

    def __init__(self, pidfd_open: Callable[[int], int] | None = PIDFD_OPEN) -> None:
        self._pidfd_open = pidfd_open
        self._epoll = select.epoll()
        self._watched: dict[int, int] = {}

    def watch(self, pid: int) -> None:
        """Watch this process too: a child of ours that was not reaped yet.

        Never raises, because the process runs already. If it cannot be watched, it has no order.
        """
        if self._pidfd_open is None:
            return
        with suppress(OSError):
            pidfd = self._pidfd_open(pid)
            try:
                self._epoll.register(pidfd, select.EPOLLIN)
            except OSError:  # fs.epoll.max_user_watches, or memory
                os.close(pidfd)
                raise
            self._watched[pidfd] = pid

    def so_far(self) -> list[int]:
        """The pids of those that died since the last call, the earliest first."""
        if not self._watched:
            return []
        dead = []
        for pidfd, _ in self._epoll.poll(0, len(self._watched)):
            os.close(pidfd)  # this also removes it from the epoll
            dead.append(self._watched.pop(pidfd))
        return dead
