"""One request to one endpoint, over HTTP; connections are kept between requests.

No proxy is used, and nothing else of the environment, as with etcdctl: training containers have
proxies for downloads, which do not lead into the cluster.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio
import httpcore
import httpx

from ascend_supervisor.etcd import wire
from ascend_supervisor.etcd.access import Access, Endpoint
from ascend_supervisor.etcd.connection_errors import CONNECT_SHARE, Progress, explained, strange
from ascend_supervisor.etcd.failures import Kind
from ascend_supervisor.etcd.names import Dialling
from ascend_supervisor.etcd.one_try import Complained, Failed, Message, not_understood
from ascend_supervisor.etcd.tls import context_of

MIB = 1024 * 1024
TOO_MUCH = "see what others keep below the job's keys (etcdctl get --prefix --keys-only)"
CLOSE_SECONDS = 1.0
IDLE_SECONDS = 60.0
"""How long a connection is kept for the next request."""
DEAD_HOST = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)
"""So that a stream from a host that is gone ends within 25 s."""


class _Transport(httpx.AsyncHTTPTransport):
    """One that looks names up itself."""

    def __init__(self, trusted: ssl.SSLContext) -> None:
        super().__init__(verify=trusted, trust_env=False)
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=trusted,
            max_connections=None,
            max_keepalive_connections=8,
            keepalive_expiry=IDLE_SECONDS,
            socket_options=DEAD_HOST,
            network_backend=Dialling(),
        )


class Stream:
    """The lines of an answer that has no end; to be closed."""

    def __init__(self, response: httpx.Response, progress: Progress, most_bytes: int) -> None:
        self._response = response
        self._progress = progress
        self._most_bytes = most_bytes
        self._parts = response.aiter_raw()
        self._received = bytearray()

    async def line(self, seconds: float | None = None) -> bytes | None:
        """The next line; None at the end. Raises Failed. One that was cancelled ends the stream."""
        limit = float("inf") if seconds is None else seconds
        with explained(self._progress, limit), anyio.fail_after(seconds):
            while b"\n" not in self._received:
                part = await anext(self._parts, None)
                if part is None:
                    return None
                _check_size(len(self._received) + len(part), self._most_bytes)
                self._received += part
        line, _, rest = bytes(self._received).partition(b"\n")
        self._received = bytearray(rest)
        return line

    async def close(self) -> None:
        await _close(self._response)


class Exchange:
    """The connections to all endpoints."""

    def __init__(self, client: httpx.AsyncClient, trusted: ssl.SSLContext, most_bytes: int) -> None:
        self._client = client
        self._trusted = trusted
        self._most_bytes = most_bytes
        self._proven: set[Endpoint] = set()

    async def ask(self, endpoint: Endpoint, message: Message, token: str, seconds: float) -> bytes:
        """The body of the answer. Raises Failed, or Complained."""
        progress = self._progress(endpoint)
        with explained(progress, seconds), anyio.fail_after(seconds):
            response = await self._begin(endpoint, message, token, progress, seconds)
            try:
                data = await _whole(response, self._most_bytes)
            finally:
                await _close(response)
        return _accepted(response.status_code, data)

    def trust(self, ca: str) -> None:
        """Trust these certificates, too, from the next connection on; others if none is one."""
        with suppress(ssl.SSLError, ValueError):
            self._trusted.load_verify_locations(cadata=ca)

    async def open(
        self, endpoint: Endpoint, message: Message, token: str, seconds: float
    ) -> Stream:
        """The lines of the answer, which begins within ``seconds``. Raises as ``ask`` does."""
        progress = self._progress(endpoint)
        with explained(progress, seconds), anyio.fail_after(seconds):
            response = await self._begin(endpoint, message, token, progress, seconds)
            if response.status_code == httpx.codes.OK:
                return Stream(response, progress, self._most_bytes)
            try:
                data = await _whole(response, self._most_bytes)
            finally:
                await _close(response)
        _accepted(response.status_code, data)
        raise AssertionError

    async def _begin(
        self, endpoint: Endpoint, message: Message, token: str, progress: Progress, seconds: float
    ) -> httpx.Response:
        request = self._client.build_request(
            "POST",
            f"{endpoint}{message.path}",
            content=message.body,
            headers={"Authorization": token} if token else {},
            extensions={"trace": progress.note},
            timeout=httpx.Timeout(None, connect=seconds * CONNECT_SHARE),
        )
        response = await self._client.send(request, stream=True)
        self._proven.add(endpoint)
        try:
            _check_head(response.headers, self._most_bytes)
        except Failed:
            await _close(response)
            raise
        return response

    def _progress(self, endpoint: Endpoint) -> Progress:
        return Progress(is_tls=endpoint.is_tls, is_proven=endpoint in self._proven)


@asynccontextmanager
async def connections(access: Access) -> AsyncIterator[Exchange]:
    """Connections that are closed at the end. Raises Refused for a CA that cannot be read."""
    trusted = context_of(access)
    transport = _Transport(trusted)
    headers = {"Accept-Encoding": "identity", "Content-Type": "application/json"}
    client = httpx.AsyncClient(
        transport=transport,
        trust_env=False,
        headers=headers,
        timeout=None,  # noqa: S113  (each request has a deadline of its own)
    )
    try:
        yield Exchange(client, trusted, access.most_bytes)
    finally:
        with anyio.move_on_after(CLOSE_SECONDS, shield=True), suppress(OSError, httpx.HTTPError):
            await client.aclose()


async def _whole(response: httpx.Response, most_bytes: int) -> bytes:
    received = bytearray()
    async for part in response.aiter_raw():
        _check_size(len(received) + len(part), most_bytes)
        received += part
    return bytes(received)


async def _close(response: httpx.Response) -> None:
    with anyio.move_on_after(CLOSE_SECONDS, shield=True), suppress(OSError, httpx.HTTPError):
        await response.aclose()


def _check_head(headers: httpx.Headers, most_bytes: int) -> None:
    """Raise Failed for a body that is not to be read: nothing is ever unpacked."""
    encoding = headers.get("Content-Encoding", "identity")
    if encoding.strip().lower() != "identity":
        raise not_understood(f"it is encoded ({encoding}), which was not asked for")
    with suppress(ValueError):  # one that is no number ends the connection
        _check_size(int(headers.get("Content-Length", "0")), most_bytes)


def _check_size(size: int, most_bytes: int) -> None:
    if size > most_bytes:
        raise Failed(
            Kind.STRANGE, f"its answer has more than {most_bytes / MIB:.3g} MiB: {TOO_MUCH}"
        )


def _accepted(status: int, data: bytes) -> bytes:
    """The data of an answer with status 200; raises Complained or Failed for any other."""
    if status == httpx.codes.OK:
        return data
    complaint = wire.complaint(data)
    raise strange(status, data) if complaint is None else Complained(complaint)
