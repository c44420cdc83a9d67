"""One request to one endpoint, over HTTP; connections are kept between requests.

No proxy is used, and nothing else of the environment, as with etcdctl: training containers have
proxies for downloads, which do not lead into the cluster. Each exception that a connection can
raise has a clause that says why the endpoint has not answered.
"""

from __future__ import annotations

import errno
import os
import socket
import ssl
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from importlib.util import find_spec

import anyio
import httpcore
import httpx

from ascend_supervisor.etcd import wire
from ascend_supervisor.etcd.access import Access, Endpoint
from ascend_supervisor.etcd.connection import (
    WITHOUT_CLIENT_CERTIFICATE,
    Dialling,
    NoAddress,
    context_of,
    refusal_of,
)
from ascend_supervisor.etcd.failures import Complained, Failed, FailureKind, not_understood
from ascend_supervisor.scarcity import scarcity
from ascend_supervisor.tasks.threads import thread_obstacle
from ascend_supervisor.untrusted_text import shown

if find_spec("sniffio") is None:  # httpcore looks for it four times a request, on the disk
    sys.modules["sniffio"] = None  # type: ignore[assignment]

CONNECT_SHARE = 0.5
"""So much of the time may pass before TCP is connected, and so much before TLS is.

httpcore closes a connection that exceeds it; one that is cancelled in a handshake is left open.
"""

_ENDED = frozenset({errno.ECONNRESET, errno.EPIPE})
_CUT_SHORT = ("disconnected", "closed connection")
_TLS_EXPECTED = b"HTTP request to an HTTPS server"


class Progress:
    """Whether anything of a request may have reached the endpoint.

    ``is_proven``: it has answered to such a request before, so the scheme is not the reason.
    """

    def __init__(self, *, is_tls: bool, is_proven: bool) -> None:
        self.is_tls = is_tls
        self.is_proven = is_proven
        self.was_sent = False

    async def note(self, step: str, _: object) -> None:
        """The name of each step, as httpcore's extension "trace" tells it."""
        if step == "http11.send_request_headers.started":
            self.was_sent = True


@contextmanager
def explained(progress: Progress, seconds: float) -> Iterator[None]:
    """Raise Failed for each way in which a connection can fail; ``seconds`` was its time limit."""
    try:
        yield
    except (TimeoutError, httpx.ConnectTimeout) as error:
        clause = "no answer" if progress.was_sent else "no connection"
        limit = seconds * CONNECT_SHARE if isinstance(error, httpx.ConnectTimeout) else seconds
        raise Failed(
            FailureKind.SILENT, f"{clause} within {limit:.3g} s", was_sent=progress.was_sent
        ) from error
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError) as error:
        kind, clause = _meaning(error, progress)
        raise Failed(kind, clause, was_sent=progress.was_sent) from error
    except RuntimeError as error:
        if "thread" not in str(error):
            raise
        raise Failed(FailureKind.SILENT, thread_obstacle(), was_sent=progress.was_sent) from error


def strange(status: int, data: bytes) -> Failed:
    """An answer that no etcd gives, or a proxy in front of one."""
    if _TLS_EXPECTED in data:
        clause = "it speaks TLS, so write https://"
        return Failed(FailureKind.REFUSED, clause, was_sent=False)
    start = shown(data[:60].decode(errors="replace").strip()) if data.strip() else "nothing"
    is_busy = status >= httpx.codes.INTERNAL_SERVER_ERROR
    hint = "" if is_busy else "; see whether this is a client address of etcd 3.4 or newer"
    kind = FailureKind.SILENT if is_busy else FailureKind.STRANGE
    return Failed(kind, f"HTTP status {status} with {start}{hint}")


def _meaning(error: Exception, progress: Progress) -> tuple[FailureKind, str]:
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError):
            return FailureKind.REFUSED, refusal_of(cause)
    for cause in causes:
        if isinstance(cause, NoAddress):
            return FailureKind.SILENT, str(cause)
        if isinstance(cause, socket.gaierror):
            return FailureKind.SILENT, f"its name has no address ({cause.strerror})"
        if isinstance(cause, ssl.SSLError):  # its errno is not one of the kernel's
            continue
        if isinstance(cause, OSError) and cause.errno and cause.errno not in _ENDED:
            return FailureKind.SILENT, scarcity(cause) or os.strerror(cause.errno).lower()
    text = str(error)
    if isinstance(error, httpx.RemoteProtocolError) and not any(cut in text for cut in _CUT_SHORT):
        return FailureKind.STRANGE, "it does not speak HTTP"
    is_agreed = progress.was_sent or not progress.is_tls
    moment = "its answer was complete" if is_agreed else "TLS was agreed on"
    return FailureKind.SILENT, f"it ended the connection before {moment}{_hint(progress)}"


def _hint(progress: Progress) -> str:
    if progress.is_proven:
        return ""
    if progress.is_tls and progress.was_sent:
        what = "etcd does so if it asks for a client certificate"
        return f" ({what}, {WITHOUT_CLIENT_CERTIFICATE})"
    return f" (etcd does so if it serves only {'http' if progress.is_tls else 'https'}://)"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The exception and what caused it, the first cause last, also through groups."""
    while error is not None:
        yield error
        inside = getattr(error, "exceptions", None)
        error = inside[-1] if inside else error.__cause__ or error.__context__


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


class AnswerStream:
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
        self.date: tuple[str, float] | None = None
        """The Date of the last answer (RFC 9110), and when it came, in Unix time."""

    async def ask(
        self, endpoint: Endpoint, message: wire.Message, token: str, seconds: float
    ) -> bytes:
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
        self, endpoint: Endpoint, message: wire.Message, token: str, seconds: float
    ) -> AnswerStream:
        """The lines of the answer, which begins within ``seconds``. Raises as ``ask`` does."""
        progress = self._progress(endpoint)
        with explained(progress, seconds), anyio.fail_after(seconds):
            response = await self._begin(endpoint, message, token, progress, seconds)
            if response.status_code == httpx.codes.OK:
                return AnswerStream(response, progress, self._most_bytes)
            try:
                data = await _whole(response, self._most_bytes)
            finally:
                await _close(response)
        _accepted(response.status_code, data)
        raise AssertionError

    async def _begin(
        self,
        endpoint: Endpoint,
        message: wire.Message,
        token: str,
        progress: Progress,
        seconds: float,
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
        self.date = response.headers.get("Date", ""), time.time()
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
            FailureKind.STRANGE, f"its answer has more than {most_bytes / MIB:.3g} MiB: {TOO_MUCH}"
        )


def _accepted(status: int, data: bytes) -> bytes:
    """The data of an answer with status 200; raises Complained or Failed for any other."""
    if status == httpx.codes.OK:
        return data
    complaint = wire.complaint(data)
    raise strange(status, data) if complaint is None else Complained(complaint)
