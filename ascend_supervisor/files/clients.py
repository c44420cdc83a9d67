"""The clients of a listening socket: served side by side, and none at the others' expense.

They never block the event loop, and nothing wakes up while nobody connects.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from typing import Protocol

import anyio
from anyio.abc import TaskGroup

from ascend_supervisor.files.reserved_descriptor import NONE_LEFT, Reserve
from ascend_supervisor.files.socket_file import BACKLOG

MOST_AT_ONCE = 16
BURST = 16
PAUSE_SECONDS = 0.02
"""After each burst of connections the loop belongs to the ranks' output for this long."""
SCARCE_SECONDS = 1.0
"""How long nothing is accepted if the machine has no room for a connection."""


class Client:
    """Owns ``connection``, and closes it; raises OSError when the client is gone.

    ``waits_for_client`` is false while an answer is made. ``scope`` ends it.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(0)
        self.connection = connection
        self.scope = anyio.CancelScope()
        self.waits_for_client = True

    async def receive(self, size: int) -> bytes:
        """At most ``size`` bytes; none at the end of what the client writes."""
        while True:
            try:
                return self.connection.recv(size)
            except BlockingIOError:
                await anyio.wait_readable(self.connection)

    async def send(self, content: bytes) -> None:
        left = memoryview(content)
        while left:
            try:
                left = left[self.connection.send(left, socket.MSG_NOSIGNAL) :]
            except BlockingIOError:
                await anyio.wait_writable(self.connection)

    def send_at_once(self, content: bytes) -> None:
        """Send it if there is room for it; a new connection has room for a sentence."""
        self.connection.send(content, socket.MSG_NOSIGNAL)

    def close(self) -> None:
        self.connection.close()


class Door(Protocol):
    """A socket that listens; ``reserve`` is to answer with when no other descriptor is left."""

    reserve: Reserve

    async def readable(self) -> None:
        """Return when ``accept`` may succeed."""

    def accept(self) -> socket.socket:
        """The next connection; never blocks. Raises OSError, BlockingIOError if there is none."""


class Clients:
    """Those who come through ``door``; each is closed when ``serve`` returns or raises.

    ``serve`` may raise OSError when its client is gone; any other error goes to ``failed``. Where
    nobody can make room, ``decline`` gets the client, and must not wait.
    """

    def __init__(
        self,
        door: Door,
        serve: Callable[[Client], Awaitable[None]],
        decline: Callable[[Client], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._door = door
        self._serve = serve
        self._decline = decline
        self._failed = failed
        self._served: dict[Client, None] = {}

    async def serve_all(self) -> None:
        """Until this is cancelled."""
        async with anyio.create_task_group() as tasks:
            while True:
                for _ in range(BURST):
                    await self._door.readable()
                    await self._accept(tasks)
                    await anyio.lowlevel.checkpoint()  # whoever has written is answered now
                await anyio.sleep(PAUSE_SECONDS)

    async def _accept(self, tasks: TaskGroup) -> None:
        try:
            self._admit(Client(self._door.accept()), tasks)
        except BlockingIOError:
            pass  # the client is gone already
        except OSError as error:
            await self._without_room(error)

    async def _without_room(self, error: OSError) -> None:
        """Serve one client with the reserved descriptor, if descriptors are what is missing."""
        if error.errno in NONE_LEFT:
            with self._door.reserve.lent():
                try:
                    connection = self._door.accept()
                except OSError:  # another thread was faster
                    await anyio.sleep(SCARCE_SECONDS)
                else:
                    await self._attend(Client(connection))
        else:
            await anyio.sleep(SCARCE_SECONDS)

    def _admit(self, client: Client, tasks: TaskGroup) -> None:
        """Serve this client; the one that has kept us waiting longest makes room for it."""
        if len(self._served) >= MOST_AT_ONCE and not self._make_room():
            with suppress(OSError), closing(client):
                self._decline(client)
        else:
            self._served[client] = None
            tasks.start_soon(self._attend, client)

    def _make_room(self) -> bool:
        """End one that waits for its client; whoever asks at once is answered before that."""
        oldest = next((one for one in self._served if one.waits_for_client), None)
        if oldest is None:
            return False
        del self._served[oldest]
        oldest.scope.cancel()
        return True

    async def _attend(self, client: Client) -> None:
        try:
            with client.scope:
                await self._serve(client)
        except OSError:
            pass  # the client is gone, or takes too long
        except Exception as error:  # noqa: BLE001  (a defect of ours ends no rank)
            self._failed(error)
        finally:
            client.close()
            self._served.pop(client, None)


class TcpListener:
    """Listens from the start to ``close``, at all addresses if ``host`` is empty.

    ``host`` is an IP address, so nothing is looked up, and nothing blocks. Raises OSError.
    ``reserve`` is to answer with when no other descriptor is left.
    """

    def __init__(self, host: str, port: int) -> None:
        self.reserve = Reserve()
        self._socket = _listening(host, port)
        self._socket.settimeout(0)

    async def readable(self) -> None:
        """Return when ``accept`` may succeed."""
        await anyio.wait_readable(self._socket)

    def accept(self) -> socket.socket:
        """The next connection; never blocks. Raises OSError, BlockingIOError if there is none."""
        return self._socket.accept()[0]

    def close(self) -> None:
        self._socket.close()


def _listening(host: str, port: int) -> socket.socket:
    if not host and socket.has_dualstack_ipv6():
        return socket.create_server(
            (host, port), family=socket.AF_INET6, backlog=BACKLOG, dualstack_ipv6=True
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG)
