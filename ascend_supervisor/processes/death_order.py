"""In which order our children died: a wait tells who is dead, and not who was first."""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from contextlib import suppress

PIDFD_OPEN: Callable[[int], int] | None = getattr(os, "pidfd_open", None)
"""None where Python was built for an older kernel."""


class DeathOrder:
    """Tells it where the kernel has pidfds (5.3) and we have file descriptors to spare.

    A pidfd becomes readable in the moment of a death, and an epoll lists what became readable in
    the order in which it did. Without pidfds the list is empty.
    """

    def __init__(self, pidfd_open: Callable[[int], int] | None = PIDFD_OPEN) -> None:
        self._pidfd_open = pidfd_open
        self._epoll = select.epoll()
        self._watched: dict[int, int] = {}

    def watch(self, pid: int) -> None:
        """Tell of this process too: a child of ours that has not been waited for.

        Never fails: the process runs by now. Where there is no room to watch it, it has no order.
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
            os.close(pidfd)  # which takes it out of the epoll too
            dead.append(self._watched.pop(pidfd))
        return dead
