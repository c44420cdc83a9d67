"""Why an endpoint has not answered: a clause for each exception that a connection can raise."""

from __future__ import annotations

import errno
import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from ascend_supervisor.etcd.failures import Kind
from ascend_supervisor.etcd.names import NoAddress
from ascend_supervisor.etcd.one_try import Failed
from ascend_supervisor.etcd.tls import WITHOUT_CLIENT_CERTIFICATE, refusal_of
from ascend_supervisor.scarcity import scarcity
from ascend_supervisor.tasks.thread_obstacle import thread_obstacle
from ascend_supervisor.untrusted_text import shown

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
            Kind.SILENT, f"{clause} within {limit:.3g} s", was_sent=progress.was_sent
        ) from error
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError) as error:
        kind, clause = _meaning(error, progress)
        raise Failed(kind, clause, was_sent=progress.was_sent) from error
    except RuntimeError as error:
        if "thread" not in str(error):
            raise
        raise Failed(Kind.SILENT, thread_obstacle(), was_sent=progress.was_sent) from error


def strange(status: int, data: bytes) -> Failed:
    """An answer that no etcd gives, or a proxy in front of one."""
    if _TLS_EXPECTED in data:
        clause = "it speaks TLS, so write https://"
        return Failed(Kind.REFUSED, clause, was_sent=False)
    start = shown(data[:60].decode(errors="replace").strip()) if data.strip() else "nothing"
    is_busy = status >= httpx.codes.INTERNAL_SERVER_ERROR
    hint = "" if is_busy else "; see whether this is a client address of etcd 3.4 or newer"
    kind = Kind.SILENT if is_busy else Kind.STRANGE
    return Failed(kind, f"HTTP status {status} with {start}{hint}")


def _meaning(error: Exception, progress: Progress) -> tuple[Kind, str]:
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError):
            return Kind.REFUSED, refusal_of(cause)
    for cause in causes:
        if isinstance(cause, NoAddress):
            return Kind.SILENT, str(cause)
        if isinstance(cause, socket.gaierror):
            return Kind.SILENT, f"its name has no address ({cause.strerror})"
        if isinstance(cause, ssl.SSLError):  # its errno is not one of the kernel's
            continue
        if isinstance(cause, OSError) and cause.errno and cause.errno not in _ENDED:
            return Kind.SILENT, scarcity(cause) or os.strerror(cause.errno).lower()
    text = str(error)
    if isinstance(error, httpx.RemoteProtocolError) and not any(cut in text for cut in _CUT_SHORT):
        return Kind.STRANGE, "it does not speak HTTP"
    is_agreed = progress.was_sent or not progress.is_tls
    moment = "its answer was complete" if is_agreed else "TLS was agreed on"
    return Kind.SILENT, f"it ended the connection before {moment}{_hint(progress)}"


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
