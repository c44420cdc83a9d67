"""Identifies processes for certain, although the kernel soon reuses the numbers of dead ones.

Every signal to a process that is not our unreaped child is sent here. The order in which our
children die is told here, too.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from ascend_supervisor.processes import proc

PIDFD_OPEN: Callable[[int], int] | None = getattr(os, "pidfd_open", None)
"""None where Python was built for an older kernel."""
PIDFD_SEND: Callable[[int, int], None] | None = getattr(signal, "pidfd_send_signal", None)
"""None if Python was built for a kernel before 5.1."""


class Pid(Struct, frozen=True, order=True):
    """A process in our PID namespace: its number, and its start in clock ticks since boot."""

    number: int
    start: int

    @classmethod
    def of(cls, number: int, root: Path = proc.PROC) -> Pid | None:
        """The process that has this number now, a zombie too; None if there is none."""
        stat = proc.stat(number, root)
        return None if stat is None else cls(number, stat.start)

    @property
    def lives(self) -> bool:
        """Whether it has not ended (a zombie has). Raises OSError at EMFILE and the like."""
        stat = proc.stat(self.number)
        return stat is not None and stat.start == self.start and not stat.is_dead

    def send(self, number: int) -> bool:
        """Signal this process and never another one; returns False if it is gone or not allowed.

        Raises OSError at EMFILE and the like.
        """
        # Open the descriptor first: it stays with the process even if the number is reused.
        handle = self._open()
        try:
            found = Pid.of(self.number)
        except OSError:
            if handle is None:
                raise
            os.close(handle)  # it was the last one that could be opened
            handle = None
            found = Pid.of(self.number)
        try:
            return found == self and self._send(handle, number)
        finally:
            if handle is not None:
                os.close(handle)

    def _open(self) -> int | None:
        """A pidfd; None if the kernel (before 5.3) or Python has none, or no descriptor is free."""
        if PIDFD_OPEN is not None and PIDFD_SEND is not None:
            with suppress(OSError):
                return PIDFD_OPEN(self.number)
        return None

    def _send(self, handle: int | None, number: int) -> bool:
        if handle is not None and PIDFD_SEND is not None:
            try:
                PIDFD_SEND(handle, number)
            except ProcessLookupError:
                return False
            except OSError:  # a seccomp filter may allow the one call and not the other
                pass
            else:
                return True
        try:
            os.kill(self.number, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True


class DeathOrder:
    """The order in which our children died, which waitpid does not report.

    Told if the kernel has pidfds (5.3) and we have file descriptors to spare.

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
