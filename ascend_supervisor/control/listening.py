"""The listening socket of the control socket: made, made again after its removal, removed."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import NoReturn

import anyio

from ascend_supervisor.files.directories import make_directories
from ascend_supervisor.files.regular_file import reason_of
from ascend_supervisor.files.reserved_descriptor import Reserve, free_descriptors
from ascend_supervisor.files.socket_file import ListeningSocket
from ascend_supervisor.files.watch import Removals
from ascend_supervisor.scarcity import NoThread
from ascend_supervisor.tasks.threads import Call, aside

ROOM = 100
"""Descriptors that must be free: 16 ranks take 64 or so. A job can do without this socket."""
REMOVE_SECONDS = 1.0


class Listening:
    """Listens at ``path`` from ``open`` to ``close``; ``tell`` gets sentences about failures.

    A file system that has not answered within ``patience`` seconds is one of them.
    """

    def __init__(
        self, path: Path, removals: Removals, tell: Callable[[str], None], patience: float
    ) -> None:
        self._path = path
        self._patience = patience
        self._removals = removals
        self._tell = tell
        self._sockets: list[ListeningSocket] = []
        """The last one is in use."""
        self._making: Call[None] | None = None
        """Makes it again."""
        self._is_closed = False
        self._turn = Lock()
        self.reserve: Reserve
        """To answer with when no other descriptor is left."""

    async def open(self) -> bool:
        """Whether there is a socket; if none can be had, this was told."""
        making = Call(self._make)
        with anyio.move_on_after(self._patience):
            await making.over()
        if not making.is_done:
            self._tell("the file system does not answer; it is there as soon as that does")
        try:
            await making.result()
            self.reserve = Reserve()
        except (OSError, NoThread) as error:
            self._tell_missing("it cannot be made", error)
            return False
        return True

    async def keep(self) -> NoReturn:
        """Make the socket again whenever its file was removed; a series of failures is told once.

        No scope around a wait for a connection is cancelled for this: that could lose a
        cancellation from outside.
        """
        is_failing = False
        while True:
            await self._removals.of(self._path)
            self._making = Call(self._make)
            try:
                await self._making.result()
            except (OSError, NoThread) as error:
                if not is_failing:
                    self._tell_missing("it was removed, and cannot be made again", error)
                is_failing = True
            else:
                is_failing = False
                self._close_earlier()

    async def readable(self) -> None:
        """Return when ``accept`` may succeed."""
        with suppress(anyio.ClosedResourceError):  # it was made again
            await anyio.wait_readable(self._sockets[-1].socket)

    def accept(self) -> socket.socket:
        """The next connection; never blocks. Raises OSError, BlockingIOError if there is none."""
        return self._sockets[-1].socket.accept()[0]

    async def close(self) -> None:
        """Remove its file, unless another one has taken its place; also one that is being made."""
        with anyio.move_on_after(REMOVE_SECONDS, shield=True):
            await aside(self._remove)
            if self._making is not None:
                await self._making.over()

    def _make(self) -> None:
        """May block."""
        made = _listen_at(self._path)
        with self._turn:
            self._sockets.append(made)
            if self._is_closed:
                made.remove()

    def _remove(self) -> None:
        with self._turn:
            self._is_closed = True
            for one in self._sockets:
                one.remove()

    def _close_earlier(self) -> None:
        while len(self._sockets) > 1:
            earlier = self._sockets.pop(0).socket
            anyio.notify_closing(earlier)  # whoever waits for it then waits for the new one
            earlier.close()

    def _tell_missing(self, what: str, error: OSError | NoThread) -> None:
        reason = reason_of(error) if isinstance(error, OSError) else str(error)
        self._tell(f"{what}: {reason}; ascend-supervisorctl reads the state file")


def _listen_at(path: Path) -> ListeningSocket:
    """Raises OSError, also if the ranks may need all descriptors that are left."""
    free = free_descriptors()
    if free < ROOM:
        raise OSError(errno.EMFILE, f"only {free:g} file descriptors are free; raise ulimit -n")
    make_directories(path.parent)
    return ListeningSocket.at(path)
