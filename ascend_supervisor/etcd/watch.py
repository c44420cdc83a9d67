"""Watches keys: each change is a wake-up, which says what was put, or that it is time to read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from ascend_supervisor.etcd import wire
from ascend_supervisor.etcd.access import Endpoint
from ascend_supervisor.etcd.failures import Complained, Failed, FailureKind, not_understood, reason
from ascend_supervisor.etcd.values import KeyValue

if TYPE_CHECKING:  # imports httpx
    from ascend_supervisor.etcd.exchange import AnswerStream


class Watch:
    """Gives etcd's revision at each wake-up, and ends when no other can come: then watch anew.

    The first wake-up comes at once: from then on no change is missed. A watch ends if the
    connection breaks, if etcd cancels it (the revision was compacted), or if its endpoint did not
    answer another request; ``ended_because`` then says so as a clause. It may be silent although
    keys change (after the data were wiped), so read now and then without it. Cancelling the wait
    for a wake-up ends the watch. ``put`` are the records that the last wake-up tells of, if it
    tells of nothing else, named without ``prefix``.
    """

    def __init__(
        self, stream: AnswerStream, endpoint: Endpoint, revision: int, end: str, prefix: str
    ) -> None:
        self.ended_because = end
        self.put: tuple[KeyValue, ...] = ()
        self._prefix = prefix
        self._stream = stream
        self._endpoint = endpoint
        self._first: int | None = revision
        self._waiting: anyio.CancelScope | None = None

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> int:
        revision, self._first = self._first, None
        if revision is None and not self.ended_because:
            with anyio.CancelScope() as self._waiting:
                revision = await self._next()
        if revision is None:
            raise StopAsyncIteration
        return revision

    def leave(self, failed: Endpoint) -> None:
        """End if this is the endpoint of the watch."""
        if failed == self._endpoint:
            self.ended_because = f"{failed} did not answer another request"
            if self._waiting is not None:
                self._waiting.cancel()

    async def close(self) -> None:
        await self._stream.close()

    async def _next(self) -> int | None:
        """The revision at the next wake-up; None at the end."""
        try:
            while True:
                message = await _message(self._stream, None)
                self.ended_because = _end_of(message)
                if self.ended_because:
                    return None
                if message.events:
                    self.put = message.put(self._prefix)
                    return message.header.revision
        except Failed as failed:
            self.ended_because = failed.clause
        except Complained as error:
            self.ended_because = reason(error.complaint)
        return None


async def confirmed(
    stream: AnswerStream, endpoint: Endpoint, watches: int, deadline: float, prefix: str
) -> Watch:
    """The watch once etcd watches all that was asked; else the stream is closed."""
    try:
        now, end = await _confirmation(stream, watches, deadline)
    except BaseException:
        await stream.close()
        raise
    return Watch(stream, endpoint, now, end, prefix)


async def _confirmation(stream: AnswerStream, watches: int, deadline: float) -> tuple[int, str]:
    """Etcd's revision when it watches all of them, and why it has ended one of them already."""
    revision, end = 0, ""
    while watches:
        message = await _message(stream, max(0.0, deadline - anyio.current_time()))
        revision = message.header.revision
        if message.created and message.canceled:
            raise Complained(wire.Complaint(message.cancel_reason))
        watches -= message.created
        end = _end_of(message) or end
    return revision, end


def _end_of(message: wire.WatchAnswer) -> str:
    """Why etcd watches no more; empty if it does."""
    if message.compact_revision:
        return f"revisions below {message.compact_revision} were compacted"
    return (message.cancel_reason or "etcd has cancelled the watch") if message.canceled else ""


async def _message(stream: AnswerStream, seconds: float | None) -> wire.WatchAnswer:
    line = await stream.line(seconds)
    if line is None:
        raise Failed(FailureKind.SILENT, "it ended the watch")
    try:
        message = wire.watch_answer(line)
    except wire.Garbled as error:
        raise not_understood(error) from error
    if isinstance(message, wire.Complaint):
        raise Complained(message)
    return message
