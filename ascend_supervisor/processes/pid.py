"""Which process is meant: the number of one that has died is soon given to another.

Whoever signals a process that is not an unreaped child of ours does it here.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ascend_supervisor.processes import proc
from ascend_supervisor.processes.death_order import PIDFD_OPEN

PIDFD_SEND: Callable[[int, int], None] | None = getattr(signal, "pidfd_send_signal", None)
"""None where Python was built for a kernel before 5.1."""


@dataclass(frozen=True, slots=True, order=True)
class Pid:
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
        """Whether it has not ended: a zombie has. Raises OSError where there is no room to look."""
        stat = proc.stat(self.number)
        return stat is not None and stat.start == self.start and not stat.is_dead

    def send(self, number: int) -> bool:
        """Signal this process and never another one; gives False if it is gone or not allowed.

        Raises OSError where there is no room to look.
        """
        # The descriptor comes first: it still means the same process when the number does not.
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
        """A pidfd; None where the kernel (before 5.3), Python or the table of files has none."""
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
