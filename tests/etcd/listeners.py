"""Sockets on loopback that are no etcd, or stand in front of one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from tests.etcd.servers import EtcdServer

Serve = Callable[[SocketStream], Awaitable[None]]


class Listener:
    """``connections`` were accepted so far; ``asked`` is set when the first request came."""

    def __init__(self) -> None:
        self.url = ""
        self.connections = 0
        self.asked = anyio.Event()


@asynccontextmanager
async def listening(serve: Serve) -> AsyncIterator[Listener]:
    """Serve each connection; all are closed at the end."""
    listener = Listener()

    async def accept(stream: SocketStream) -> None:
        listener.connections += 1
        async with stream:
            with suppress(anyio.BrokenResourceError, anyio.EndOfStream, anyio.IncompleteRead):
                await serve(stream)

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as server:
        port = server.extra(SocketAttribute.local_port)  # noqa: S610  (it is not Django's)
        listener.url = f"http://127.0.0.1:{port}"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, accept, tasks)
            yield listener
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def answering(reply: bytes, *, hold: bool = False) -> AsyncIterator[Listener]:
    """Answer each request with these bytes; then close the connection, or ``hold`` it open."""

    async def serve(stream: SocketStream) -> None:
        await BufferedByteReceiveStream(stream).receive_until(b"\r\n\r\n", 1 << 16)
        one.asked.set()
        if reply:
            await stream.send(reply)
        if hold:
            await anyio.sleep_forever()

    async with listening(serve) as one:
        yield one


@asynccontextmanager
async def in_front_of(server: EtcdServer) -> AsyncIterator[Listener]:
    """Pass on all bytes, so that connections are counted."""

    async def serve(stream: SocketStream) -> None:
        place = (server.endpoint.host, server.endpoint.port)
        async with await anyio.connect_tcp(*place) as back, anyio.create_task_group() as tasks:
            tasks.start_soon(_pass_on, back, stream)
            await _pass_on(stream, back)
            tasks.cancel_scope.cancel()

    async with listening(serve) as one:
        yield one


async def _pass_on(source: SocketStream, target: SocketStream) -> None:
    with suppress(anyio.BrokenResourceError):
        async for data in source:
            await target.send(data)
        await target.send_eof()


def http(status: str, body: bytes, kind: str = "application/json") -> bytes:
    """A whole answer."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body
