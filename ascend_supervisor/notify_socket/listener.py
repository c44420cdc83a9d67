"""Reads the notify socket from the first process of a run to the end of the last one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path, PurePath
from threading import Event
from typing import NoReturn

import anyio
from anyio.abc import TaskGroup

from ascend_supervisor.events import Report
from ascend_supervisor.events.supervisor import Diagnostic
from ascend_supervisor.files.regular_file import reason_of
from ascend_supervisor.files.socket_file import SocketFile
from ascend_supervisor.files.watch import FileSystemTimeout, Removals, SlowFiles
from ascend_supervisor.life import Life
from ascend_supervisor.notify_socket.bound_socket import (
    BoundSocket,
    Datagram,
    bound_to_file,
    bound_to_name,
    file_beside,
)
from ascend_supervisor.notify_socket.messages import after
from ascend_supervisor.notify_socket.senders import Senders
from ascend_supervisor.scarcity import scarcity
from ascend_supervisor.tasks.clock import Clock
from ascend_supervisor.untrusted_text import plain

ANSWER_SECONDS = 2.0
"""How long the file system may take to make or to remove the file of the socket."""
MOST_AT_ONCE = 16
"""Messages between two turns of everything else in the event loop, however many are sent."""
MOST_SOCKETS = 8
"""A rank may have connected to a socket whose file was removed; so many are read at a time."""
PAUSE_SECONDS = 0.1
"""After an error of the kernel, such as too little memory."""


class Listener:
    """``senders`` tells whose the messages of a generation are; ``room`` makes /proc readable.

    A socket whose file was removed is made again, as soon as ``removals`` notices.
    """

    def __init__(
        self,
        senders: Callable[[Life], Senders],
        room: Callable[[], AbstractContextManager[None]],
        clock: Clock,
        report: Report,
        removals: Removals,
    ) -> None:
        self._removals = removals
        self._make_senders = senders
        self._room = room
        self._clock = clock
        self._report = report
        self._files = SlowFiles(ANSWER_SECONDS)
        self._bound: BoundSocket | None = None
        self._file: SocketFile | None = None
        self._heard: list[BoundSocket] = []
        self._opened = anyio.Event()
        self._is_over = False
        self._is_too_late = Event()
        self._life: Life | None = None
        self._senders: Senders | None = None

    @property
    def address(self) -> str | None:
        """For NOTIFY_SOCKET; None before ``open``, and if this machine allows no such socket."""
        return None if self._bound is None else self._bound.address

    async def open(self, state_file: PurePath) -> None:
        """Make the socket beside the state file, or with an abstract name.

        Raises OSError if no descriptor is left and the like.
        """
        self._bound = await self._in_a_file(state_file) or self._with_a_name()
        if self._bound is not None:
            self._opened.set()

    async def _in_a_file(self, state_file: PurePath) -> BoundSocket | None:
        """None if clients could not reach it there, or the file system does not allow it."""
        path = file_beside(state_file)
        if path is None:
            return None
        try:
            return await self._bound_in_time(Path(path))
        except (OSError, FileSystemTimeout):
            return None

    async def _bound_in_time(self, path: Path) -> BoundSocket:
        """A socket at ``path``; raises OSError or FileSystemTimeout, and then none comes later."""
        self._is_too_late = is_too_late = Event()
        try:
            return await self._files.ask(partial(self._bound_unless, is_too_late, path))
        except BaseException:
            is_too_late.set()
            raise

    def _with_a_name(self) -> BoundSocket | None:
        try:
            return bound_to_name()
        except OSError as error:
            if scarcity(error):
                raise
            self._tell(f"ranks get no NOTIFY_SOCKET: {error.strerror or error}")
            return None

    def _tell(self, text: str) -> None:
        self._report(Diagnostic("the notify socket", plain(text), None))

    def attend(self, life: Life) -> None:
        """From now on messages are those of ``life``; to be called before its first process."""
        self._life, self._senders = life, self._make_senders(life)

    async def listen(self) -> NoReturn:
        """Take in what ranks say, for ever; the socket is closed when this is cancelled."""
        await self._opened.wait()
        assert self._bound is not None  # noqa: S101  (set before the event)
        async with anyio.create_task_group() as tasks:
            self._hear_too(self._bound, tasks)
            if self._bound.file is not None:
                tasks.start_soon(self._keep, Path(self._bound.address), tasks)
            await anyio.sleep_forever()
        raise AssertionError  # for mypy, to which a task group may end its block

    def _hear_too(self, bound: BoundSocket, tasks: TaskGroup) -> None:
        self._heard.append(bound)
        tasks.start_soon(self._hear, bound)
        if len(self._heard) > MOST_SOCKETS:
            anyio.notify_closing(self._heard.pop(0).socket)

    async def _hear(self, bound: BoundSocket) -> None:
        with bound.socket:
            while bound in self._heard:
                with suppress(anyio.ClosedResourceError):
                    await anyio.wait_readable(bound.socket)
                try:
                    await self._read(bound)
                except OSError:
                    await self._clock.sleep(PAUSE_SECONDS)

    async def _keep(self, path: Path, tasks: TaskGroup) -> None:
        """Make the socket again whenever its file was removed, until ``remove_file``."""
        is_failing = False
        while True:
            await self._removals.of(path)
            if self._is_over:
                return
            try:
                made = await self._bound_in_time(path)
            except (OSError, FileSystemTimeout) as error:
                if not is_failing and not self._is_over:
                    reason = reason_of(error) if isinstance(error, OSError) else str(error)
                    self._tell(f"{path} was removed, and cannot be made again: {reason}")
                is_failing = True
            else:
                is_failing = False
                self._bound = made
                self._hear_too(made, tasks)

    async def _read(self, bound: BoundSocket) -> None:
        with self._room():
            for datagram in bound.datagrams(MOST_AT_ONCE):
                await self._take(datagram)

    async def _take(self, datagram: Datagram) -> None:
        life, senders = self._life, self._senders
        if life is None or senders is None:
            return
        rank = await senders.rank_of(datagram.pid)
        if rank is not None:
            told = life.notified.get(rank)
            life.notified[rank] = after(datagram.text, told, self._clock.now())
            life.tell_notified()

    async def remove_file(self) -> None:
        """Remove the socket's file, if there is one; to be called when no rank is left."""
        self._is_over = True
        self._is_too_late.set()
        with suppress(FileSystemTimeout):  # the next start replaces it
            await self._files.ask(self._remove_file)

    def _bound_unless(self, is_too_late: Event, path: Path) -> BoundSocket:
        """A socket at ``path``, of which nothing stays if nobody waits for it any more."""
        bound = bound_to_file(path)
        if is_too_late.is_set():
            bound.remove()
            raise FileSystemTimeout
        self._file = bound.file
        return bound

    def _remove_file(self) -> None:
        if self._file is not None:
            self._file.remove()
