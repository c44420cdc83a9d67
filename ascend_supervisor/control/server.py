"""The control socket: serves several clients at once, and none of them at the others' expense.

It never blocks the event loop, and nothing wakes up while nobody connects.
"""

from __future__ import annotations

import os
import pwd
import socket
import struct
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from ascend_supervisor.control.listening import Listening
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
from ascend_supervisor.events.supervisor import Diagnostic
from ascend_supervisor.files.removals import Removals
from ascend_supervisor.files.reserved_descriptor import NONE_LEFT
from ascend_supervisor.outcome import Requester
from ascend_supervisor.reporters.python_warnings import defect
from ascend_supervisor.scarcity import NoThread
from ascend_supervisor.tasks.threads import Call
from ascend_supervisor.untrusted_text import plain, printable

PATIENCE_SECONDS = 5.0
"""How long a client may take to ask, or to read its answer, and the file system to answer."""
_CREDENTIALS = struct.Struct("iII")
"""struct ucred of unix(7): pid, uid, gid, as they were at connect(2)."""


class Conversation:
    """Owns ``connection``, and closes it; raises OSError when the client is gone.

    ``waits_for_client`` is false while an answer is made. ``scope`` ends it.
    """

    def __init__(self, connection: socket.socket, patience: float) -> None:
        connection.settimeout(0)
        self._patience = patience
        self.scope = anyio.CancelScope()
        self.waits_for_client = True
        self._connection = connection

    @property
    def by(self) -> Requester:
        found = self._connection.getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
        )
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
                piece = await self._receive(MOST_REQUEST_BYTES - len(received))
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
        left = memoryview(line)
        with anyio.fail_after(self._patience):
            while left:
                try:
                    left = left[self._connection.send(left, socket.MSG_NOSIGNAL) :]
                except BlockingIOError:
                    await anyio.wait_writable(self._connection)

    def say_at_once(self, line: bytes) -> None:
        """Write ``line`` if there is room for it; a new connection has room for a sentence."""
        self._connection.send(line, socket.MSG_NOSIGNAL)

    def close(self) -> None:
        self._connection.close()

    async def _receive(self, size: int) -> bytes:
        while True:
            try:
                return self._connection.recv(size)
            except BlockingIOError:
                await anyio.wait_readable(self._connection)


MOST_AT_ONCE = 16
BURST = 16
PAUSE_SECONDS = 0.02
"""After each burst of connections the loop belongs to the ranks' output for this long."""
SCARCE_SECONDS = 1.0
"""How long nothing is accepted if the machine has no room for a connection."""
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
        self._conversations: dict[Conversation, None] = {}

    def begin(self) -> None:
        """No other supervisor uses the place from now on."""
        self._begun.set()

    @property
    def conversations(self) -> int:
        """How many clients are being served."""
        return len(self._conversations)

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
                await self._accept_all(tasks)
        except Exception as error:  # noqa: BLE001  (a defect of ours ends no rank)
            self._report(defect(error))
        finally:
            await self._listening.close()

    def _named(self, by: Requester) -> Requester:
        """With the name of the user, if that is known."""
        users = self._users
        if users is not None and users.is_done:
            with suppress(NoThread, OSError):
                return replace(by, user=users.answer.get(by.uid, ""))
        return by

    async def _accept_all(self, tasks: TaskGroup) -> NoReturn:
        while True:
            for _ in range(BURST):
                await self._listening.readable()
                await self._accept(tasks)
                await anyio.lowlevel.checkpoint()  # whoever has written is answered now
            await anyio.sleep(PAUSE_SECONDS)

    async def _accept(self, tasks: TaskGroup) -> None:
        try:
            self._admit(Conversation(self._listening.accept(), self._patience), tasks)
        except BlockingIOError:
            pass  # the client is gone already
        except OSError as error:
            await self._without_room(error)

    async def _without_room(self, error: OSError) -> None:
        """Serve one client with the reserved descriptor, if descriptors are what is missing."""
        if error.errno in NONE_LEFT:
            with self._listening.reserve.lent():
                try:
                    connection = self._listening.accept()
                except OSError:  # another thread was faster
                    await anyio.sleep(SCARCE_SECONDS)
                else:
                    await self._serve(Conversation(connection, self._patience))
        else:
            await anyio.sleep(SCARCE_SECONDS)

    def _admit(self, conversation: Conversation, tasks: TaskGroup) -> None:
        """Serve this client; the one that has kept us waiting longest makes room for it."""
        if len(self._conversations) >= MOST_AT_ONCE and not self._make_room():
            _decline(conversation)
        else:
            self._conversations[conversation] = None
            tasks.start_soon(self._serve, conversation)

    def _make_room(self) -> bool:
        """End one that waits for its client; whoever asks at once is answered before that."""
        oldest = next((one for one in self._conversations if one.waits_for_client), None)
        if oldest is None:
            return False
        del self._conversations[oldest]
        oldest.scope.cancel()
        return True

    async def _serve(self, conversation: Conversation) -> None:
        try:
            with conversation.scope:
                await self._converse(conversation)
        except OSError:
            pass  # the client is gone, or takes too long
        except Exception as error:  # noqa: BLE001  (a defect of ours ends no rank)
            self._report(defect(error))
        finally:
            conversation.close()
            self._conversations.pop(conversation, None)

    async def _converse(self, conversation: Conversation) -> None:
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
        conversation.waits_for_client = isinstance(request, AskDump)  # else dumps fill all places
        try:
            return await self.operations.answer(request, self._named(conversation.by))
        except Exception as error:  # noqa: BLE001  (a defect of ours ends no rank)
            self._report(defect(error))
            return Declined(f"a defect of ascend_supervisor, please report it: {error!r}")
        finally:
            conversation.waits_for_client = True

    def _tell(self, text: str) -> None:
        self._report(Diagnostic("the control socket", f"{plain(str(self._path))}: {text}", None))


def user_names() -> Mapping[int, str]:
    """The names of those who may ask: root and our own user. It may block."""
    found = {}
    for uid in {0, os.geteuid()}:
        with suppress(KeyError):
            found[uid] = printable(pwd.getpwuid(uid).pw_name)
    return found


def _decline(conversation: Conversation) -> None:
    busy = Declined(f"{MOST_AT_ONCE} others are being answered; ask again")
    try:
        conversation.say_at_once(answer_line(busy))
    except OSError:
        pass
    finally:
        conversation.close()
