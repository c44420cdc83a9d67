"""One HTTP request to one endpoint; nothing that it does takes longer, or more, than is said here.

No proxy is used, no redirect followed, nothing unpacked. It needs only the standard library.
"""

from __future__ import annotations

import http.client
import io
import os
import socket
import ssl
from contextlib import suppress
from functools import partial

import anyio
from anyio.abc import ByteStream

from ascend_supervisor import __version__
from ascend_supervisor.scarcity import NoThread, scarcity
from ascend_supervisor.settings.alert_options import Webhook
from ascend_supervisor.tasks.threads import Call

TRY_SECONDS = 10.0
CONNECT_SECONDS = 3.0
"""For each address of a name but the last."""
MOST_ADDRESSES = 3
BODY_SECONDS = 1.0
"""How long the rest of an answer may take after its head: what has a status was taken, or not."""
ANSWER_BYTES = 16 * 1024
"""Nothing that follows is read."""
END_OF_HEAD = b"\r\n\r\n"
CUT_SHORT = "it ended the connection before its answer was complete"


class PostFailed(Exception):
    """There is no answer; the text is a clause that says why."""


Answered = tuple[int, bytes]
"""The HTTP status, and as much of the body as was read."""


async def post(
    webhook: Webhook,
    body: bytes,
    trust: ssl.SSLContext | None,
    *,
    body_seconds: float = BODY_SECONDS,
) -> Answered:
    """The answer, within TRY_SECONDS. Raises PostFailed. ``trust`` is needed for https only."""
    try:
        with anyio.fail_after(TRY_SECONDS):
            async with await _connected(webhook, trust) as stream:
                await stream.send(_request(webhook, body))
                return await _answer(stream, body_seconds)
    except TimeoutError as error:
        raise PostFailed(f"no answer within {TRY_SECONDS:g} s") from error
    except ssl.SSLCertVerificationError as error:
        words = error.verify_message.rstrip(".")
        raise PostFailed(f"its certificate is not accepted: {words}") from error
    except ssl.SSLError as error:
        words = (error.reason or "without a reason").lower().replace("_", " ")
        raise PostFailed(f"TLS failed ({words})") from error
    except socket.gaierror as error:
        raise PostFailed(f"its name has no address ({error.strerror})") from error
    except NoThread as error:
        raise PostFailed(str(error)) from error
    except OSError as error:
        raise PostFailed(_reason(error)) from error
    except (anyio.BrokenResourceError, anyio.EndOfStream) as error:
        raise PostFailed(CUT_SHORT) from error
    except http.client.HTTPException as error:
        raise PostFailed("it does not speak HTTP") from error


def _reason(error: OSError) -> str:
    """Why there is no connection: anyio puts its own words before those of the kernel."""
    cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
    said = os.strerror(cause.errno).lower() if cause.errno else str(cause)
    return scarcity(cause) or said


async def _connected(webhook: Webhook, trust: ssl.SSLContext | None) -> ByteStream:
    found = await Call(partial(_looked_up, webhook.host, webhook.port)).result()
    for address in found[:-1]:
        with suppress(OSError), anyio.fail_after(CONNECT_SECONDS):
            return await _dialled(webhook, address, trust)
    return await _dialled(webhook, found[-1], trust)


def _looked_up(host: str, port: int) -> tuple[str, ...]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))[:MOST_ADDRESSES]


async def _dialled(webhook: Webhook, address: str, trust: ssl.SSLContext | None) -> ByteStream:
    if not webhook.is_tls:
        return await anyio.connect_tcp(address, webhook.port)
    return await anyio.connect_tcp(
        address,
        webhook.port,
        tls=True,
        ssl_context=trust,
        tls_standard_compatible=False,
        tls_hostname=webhook.host,
    )


def _request(webhook: Webhook, body: bytes) -> bytes:
    lines = (
        f"POST {webhook.target} HTTP/1.1",
        f"Host: {webhook.authority}",
        f"User-Agent: ascend-supervisor/{__version__}",
        "Content-Type: application/json; charset=utf-8",
        f"Content-Length: {len(body)}",
        "Accept-Encoding: identity",
        "Connection: close",
    )
    return "\r\n".join((*lines, "", "")).encode("ascii") + body


async def _answer(stream: ByteStream, body_seconds: float) -> Answered:
    data = b""
    found: Answered | None = None
    with anyio.CancelScope() as reading:
        while len(data) < ANSWER_BYTES:
            try:
                data += await stream.receive(ANSWER_BYTES)
            except anyio.EndOfStream:
                break
            if END_OF_HEAD in data:
                if found is None:
                    reading.deadline = anyio.current_time() + body_seconds
                status, body, is_complete = _parsed(data)
                found = status, body
                if is_complete:
                    break
    if found is None:
        raise anyio.EndOfStream
    return found


class _Received:
    """What http.client takes for a socket: bytes that are here already."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, *_: object) -> io.BytesIO:
        return io.BytesIO(self._data)


def _parsed(data: bytes) -> tuple[int, bytes, bool]:
    """Status, body so far, and whether that is all of it; raises HTTPException for no answer."""
    response = http.client.HTTPResponse(_Received(data), method="POST")  # type: ignore[arg-type]
    response.begin()
    says_its_end = response.length is not None or response.chunked
    try:
        return response.status, response.read(), says_its_end
    except http.client.IncompleteRead as cut:
        return response.status, cut.partial, False
