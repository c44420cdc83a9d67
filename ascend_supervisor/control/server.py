"""The control socket: where it listens, what its clients ask, and who may."""

from __future__ import annotations

import errno
import os
import pwd
import socket
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import NoReturn

import anyio
from msgspec.structs import replace

from ascend_supervisor.control.operations import Operations
from ascend_supervisor.control.protocol import (
    MOST_REQUEST_BYTES,
    Answer,
    AskDump,
    Declined,
    NotUnderstood,
    answer_line,
    request_of,
)
from ascend_supervisor.events import Report
from ascend_supervisor.events.supervisor import Diagnostic, defect
from ascend_supervisor.files.clients import MOST_AT_ONCE, Client, Clients
from ascend_supervisor.files.directories import make_directories
from ascend_supervisor.files.regular_file import reason_of
from ascend_supervisor.files.reserved_descriptor import Reserve, free_descriptors
from ascend_supervisor.files.socket_file import ListeningSocket
from ascend_supervisor.files.watch import Removals
from ascend_supervisor.outcome import Requester
from ascend_supervisor.scarcity import NoThread
from ascend_supervisor.tasks.threads import Call, aside
from ascend_supervisor.untrusted_text import plain, printable

PATIENCE_SECONDS = 5.0
"""How long a client may take to ask, or to read its answer, and the file system to answer."""
_CREDENTIALS = struct.Struct("iII")
"""struct ucred of unix(7): pid, uid, gid, as they were at connect(2)."""


class Conversation:
    """What one ``client`` asks and is answered; raises OSError when it is gone."""

    def __init__(self, client: Client, patience: float) -> None:
        self.client = client
        self._patience = patience

    @property
    def by(self) -> Requester:
        connection = self.client.connection
        found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        pid, uid, _ = _CREDENTIALS.unpack(found)
        return Requester(pid, uid)

    @property
    def stranger(self) -> Declined | None:
        """The answer to a user who may not ask."""
        ours, theirs = os.geteuid(), self.by.uid
        if theirs in {0, ours}:
            return None
        return Declined(f"user {theirs} may not ask; ask as user {ours}, the supervisor's, or root")

    async def line(self) -> bytes | None:
        """What the client writes up to its first newline, or to its end; None if that is nothing.

        Raises NotUnderstood if it is too long, or not there after ``patience`` seconds.
        """
        received = b""
        with anyio.move_on_after(self._patience):
            while b"\n" not in received and len(received) < MOST_REQUEST_BYTES:
                piece = await self.client.receive(MOST_REQUEST_BYTES - len(received))
                received += piece
                if not piece:
                    return received or None
        line, newline, _ = received.partition(b"\n")
        if not newline:
            raise NotUnderstood(
                f"expected a line of at most {MOST_REQUEST_BYTES} bytes within {self._patience:g} s"
            )
        return line

    async def say(self, line: bytes) -> None:
        """Write ``line``; raises TimeoutError after ``patience`` seconds."""
        with anyio.fail_after(self._patience):
            await self.client.send(line)


NAME_SECONDS = 1.0
"""How long to wait for the names of users, which may come from a server that does not answer."""


class ControlSocket:
    """Listens at ``path`` from ``begin`` on, for as long as ``serve`` runs.

    If no socket can be had there, this is reported once, and ``serve`` returns. A socket whose file
    was removed is made again, as soon as ``removals`` notices.
    """

    def __init__(
        self,
        path: Path,
        operations: Operations,
        report: Report,
        removals: Removals,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self.operations = operations
        self._patience = patience
        self._path = path
        self._listening = Listening(path, removals, self._tell, patience)
        self._report = report
        self._begun = anyio.Event()
        self._users: Call[Mapping[int, str]] | None = None
        self._clients = Clients(self._listening, self._serve, _decline, self._failed)

    def begin(self) -> None:
        """No other supervisor uses the place from now on."""
        self._begun.set()

    async def serve(self) -> None:
        """Answer until this is cancelled; then the file is removed."""
        await self._begun.wait()
        self._users = Call(user_names)
        try:
            if not await self._listening.open():
                return
            with anyio.move_on_after(NAME_SECONDS):
                await self._users.over()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._listening.keep)
                await self._clients.serve_all()
        except Exception as error:  # noqa: BLE001  (a defect of ours ends no rank)
            self._failed(error)
        finally:
            await self._listening.close()

    def _named(self, by: Requester) -> Requester:
        """With the name of the user, if that is known."""
        users = self._users
        if users is not None and users.is_done:
            with suppress(NoThread, OSError):
                return replace(by, user=users.answer.get(by.uid, ""))
        return by

    async def _serve(self, client: Client) -> None:
        conversation = Conversation(client, self._patience)
        answer = await self._answer(conversation)
        if answer is not None:
            await conversation.say(answer_line(answer))

    async def _answer(self, conversation: Conversation) -> Answer | None:
        """None if the client has asked nothing."""
        try:
            line = await conversation.line()
            if line is None or conversation.stranger is not None:
                return conversation.stranger
            request = request_of(line)
        except NotUnderstood as error:
            return Declined(str(error))
        # Else dumps fill all places.
        conversation.client.waits_for_client = isinstance(request, AskDump)
        try:
            return await self.operations.answer(request, self._named(conversation.by))
        except Exception as error:  # noqa: BLE001  (a defect of ours ends no rank)
            self._failed(error)
            return Declined(f"a defect of ascend_supervisor, please report it: {error!r}")
        finally:
            conversation.client.waits_for_client = True

    def _failed(self, error: Exception) -> None:
        self._report(defect(error))

    def _tell(self, text: str) -> None:
        self._report(Diagnostic("the control socket", f"{plain(str(self._path))}: {text}", None))


def user_names() -> Mapping[int, str]:
    """The names of those who may ask: root and our own user. It may block."""
    found = {}
    for uid in {0, os.geteuid()}:
        with suppress(KeyError):
            found[uid] = printable(pwd.getpwuid(uid).pw_name)
    return found


def _decline(client: Client) -> None:
    busy = Declined(f"{MOST_AT_ONCE} others are being answered; ask again")
    client.send_at_once(answer_line(busy))


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
