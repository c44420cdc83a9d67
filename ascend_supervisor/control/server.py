"""The control socket: serves several clients at once, and none of them at the others' expense.

It never blocks the event loop, and nothing wakes up while nobody connects.
"""

from __future__ import annotations

import errno
import os
import pwd
import socket
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from ascend_supervisor.control.conversation import Conversation
from ascend_supervisor.control.operations import Operations
from ascend_supervisor.control.protocol import (
    Answer,
    AskDump,
    Declined,
    NotUnderstood,
    answer_line,
    request_of,
)
from ascend_supervisor.events import Report
from ascend_supervisor.events.supervisor import Diagnostic
from ascend_supervisor.files.directories import make_directories
from ascend_supervisor.files.reasons import reason_of
from ascend_supervisor.files.reserved_descriptor import NONE_LEFT, Reserve, free_descriptors
from ascend_supervisor.files.socket_file import ListeningSocket
from ascend_supervisor.outcome import Requester
from ascend_supervisor.reporters.python_warnings import defect
from ascend_supervisor.scarcity import NoThread
from ascend_supervisor.tasks.threads import Errand, aside
from ascend_supervisor.untrusted_text import plain, printable

MOST_AT_ONCE = 16
BURST = 16
ROOM = 100
"""Descriptors that must be free: 16 ranks take 64 or so. A job can do without this socket."""
PAUSE_SECONDS = 0.02
"""After each burst of connections the loop belongs to the ranks' output for this long."""
SCARCE_SECONDS = 1.0
"""How long nothing is accepted if the machine has no room for a connection."""
ANSWER_SECONDS = 5.0
"""After this time without an answer of the file system, that is reported."""
REMOVE_SECONDS = 1.0
NAME_SECONDS = 1.0
"""How long to wait for the names of users, which may come from a server that does not answer."""


class ControlSocket:
    """Listens at ``path`` from ``begin`` on, for as long as ``serve`` runs.

    If no socket can be had there, this is reported once, and ``serve`` returns.
    """

    def __init__(self, path: Path, operations: Operations, report: Report) -> None:
        self.operations = operations
        self._path = path
        self._report = report
        self._begun = anyio.Event()
        self._users: Errand[Mapping[int, str]] | None = None
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
        self._users = Errand(user_names)
        try:
            file, reserve = await self._opened()
        except (OSError, NoThread) as error:
            reason = reason_of(error) if isinstance(error, OSError) else str(error)
            self._tell(f"it cannot be made: {reason}; ascend-supervisorctl reads the state file")
            return
        try:
            with anyio.move_on_after(NAME_SECONDS):
                await self._users.over()
            await self._accept_all(file.socket, reserve)
        except Exception as error:  # noqa: BLE001  (a defect of ours ends no rank)
            self._report(defect(error))
        finally:
            with anyio.move_on_after(REMOVE_SECONDS, shield=True):
                await aside(file.remove)

    def _named(self, by: Requester) -> Requester:
        """With the name of the user, if that is known."""
        users = self._users
        if users is not None and users.is_done:
            with suppress(NoThread, OSError):
                return replace(by, user=users.answer.get(by.uid, ""))
        return by

    async def _opened(self) -> tuple[ListeningSocket, Reserve]:
        """The socket, and a descriptor to answer with when no other is left."""
        errand = Errand(partial(_listen_at, self._path))
        with anyio.move_on_after(ANSWER_SECONDS):
            await errand.over()
        if not errand.is_done:
            self._tell("the file system does not answer; it is there as soon as that does")
        file = await errand.result()
        try:
            return file, Reserve()
        except OSError:
            await aside(file.remove)
            raise

    async def _accept_all(self, listener: socket.socket, reserve: Reserve) -> None:
        async with anyio.create_task_group() as tasks:
            while True:
                for _ in range(BURST):
                    await anyio.wait_readable(listener)
                    await self._accept(listener, reserve, tasks)
                    await anyio.lowlevel.checkpoint()  # whoever has written is answered now
                await anyio.sleep(PAUSE_SECONDS)

    async def _accept(self, listener: socket.socket, reserve: Reserve, tasks: TaskGroup) -> None:
        try:
            self._admit(Conversation(listener.accept()[0]), tasks)
        except BlockingIOError:
            pass  # the client is gone already
        except OSError as error:
            await self._without_room(error, listener, reserve)

    async def _without_room(
        self, error: OSError, listener: socket.socket, reserve: Reserve
    ) -> None:
        """Serve one client with the reserved descriptor, if descriptors are what is missing."""
        if error.errno in NONE_LEFT:
            with reserve.lent():
                try:
                    connection = listener.accept()[0]
                except OSError:  # another thread was faster
                    await anyio.sleep(SCARCE_SECONDS)
                else:
                    await self._serve(Conversation(connection))
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


def _listen_at(path: Path) -> ListeningSocket:
    """Raises OSError, also if the ranks may need all descriptors that are left."""
    free = free_descriptors()
    if free < ROOM:
        raise OSError(errno.EMFILE, f"only {free:g} file descriptors are free; raise ulimit -n")
    make_directories(path.parent)
    return ListeningSocket.at(path)


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
