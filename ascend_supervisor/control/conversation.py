"""One client of the control socket: who it is, the line that it writes, the line that it gets."""

from __future__ import annotations

import os
import socket
import struct

import anyio

from ascend_supervisor.control.protocol import MOST_REQUEST_BYTES, Declined, NotUnderstood
from ascend_supervisor.outcome import Requester

READ_SECONDS = 5.0
WRITE_SECONDS = 5.0
_CREDENTIALS = struct.Struct("iII")
"""struct ucred of unix(7): pid, uid, gid, as they were at connect(2)."""


class Conversation:
    """Owns ``connection``, and closes it; raises OSError when the client is gone.

    ``waits_for_client`` is false while an answer is made. ``scope`` ends it.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(0)
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

        Raises NotUnderstood if it is too long, or not there after READ_SECONDS.
        """
        received = b""
        with anyio.move_on_after(READ_SECONDS):
            while b"\n" not in received and len(received) < MOST_REQUEST_BYTES:
                piece = await self._receive(MOST_REQUEST_BYTES - len(received))
                received += piece
                if not piece:
                    return received or None
        line, newline, _ = received.partition(b"\n")
        if not newline:
            raise NotUnderstood(
                f"expected a line of at most {MOST_REQUEST_BYTES} bytes within {READ_SECONDS:g} s"
            )
        return line

    async def say(self, line: bytes) -> None:
        """Write ``line``; raises TimeoutError after WRITE_SECONDS."""
        left = memoryview(line)
        with anyio.fail_after(WRITE_SECONDS):
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
