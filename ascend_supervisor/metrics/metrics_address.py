"""Serves the figures over HTTP, and two pages for probes (--metrics-address)."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from io import BytesIO

import anyio
from msgspec import Struct

from ascend_supervisor.errors import Unavailable
from ascend_supervisor.events import Event
from ascend_supervisor.events.supervisor import defect
from ascend_supervisor.files.clients import Client, Clients, TcpListener
from ascend_supervisor.files.regular_file import reason_of
from ascend_supervisor.metrics.figures import Snapshot
from ascend_supervisor.metrics.registry import Registry
from ascend_supervisor.settings.readers import ListenAddress
from ascend_supervisor.untrusted_text import printable

REQUEST_SECONDS = 10.0
"""How long a client may take to ask and to read; Prometheus waits as long for an answer."""
FORMAT = "text/plain; version=0.0.4; charset=utf-8"
"""What Prometheus calls its text format."""
_REASONS = {
    errno.EADDRINUSE: "another process listens there; choose another port",
    errno.EACCES: "only a privileged user may have a port below 1024; choose a higher one",
    errno.EADDRNOTAVAIL: "this machine has no such address; leave it out to listen at all",
}


class MetricsAddress:
    """Listens at ``address`` from ``begin`` on, and answers for as long as ``keep`` runs."""

    def __init__(self, address: ListenAddress, text_of: Callable[[Snapshot], bytes]) -> None:
        self._address = address
        self._text_of = text_of
        self._begun = anyio.Event()

    def begin(self, registry: Registry) -> None:
        """Raises Unavailable if it cannot listen there."""
        try:
            self._listener = TcpListener(self._address.host, self._address.port)
        except OSError as error:
            reason = _REASONS.get(error.errno or 0) or reason_of(error)
            raise Unavailable(f"--metrics-address {self._address}: {reason}") from error
        self._registry = registry
        self._begun.set()

    def report(self, event: Event) -> None:
        """Whoever wants to know asks."""

    async def keep(self) -> None:
        await self._begun.wait()
        try:
            await Clients(self._listener, self._serve, Client.close, self._failed).serve_all()
        except Exception as error:  # noqa: BLE001  (a defect of ours ends no rank)
            self._failed(error)
        finally:
            self._listener.close()

    async def _serve(self, client: Client) -> None:
        pages = {"/metrics": self._metrics, "/healthz": _health, "/readyz": self._readiness}
        with anyio.move_on_after(REQUEST_SECONDS):
            await client.send(answer(await _request(client), pages))

    def _metrics(self) -> Page:
        return Page(self._text_of(self._registry.snapshot()), FORMAT)

    def _readiness(self) -> Page:
        found = self._registry.operations.readiness()
        status = HTTPStatus.OK if found.ready else HTTPStatus.SERVICE_UNAVAILABLE
        return Page(f"{printable(found.reason)}\n".encode(), status=status)

    def _failed(self, error: Exception) -> None:
        self._registry.tell(defect(error))


def _health() -> Page:
    """Who answers is alive."""
    return Page(b"alive\n")


async def _request(client: Client) -> bytes:
    received = b""
    while not is_whole(received):
        piece = await client.receive(MOST_BYTES - len(received))
        if not piece:
            break
        received += piece
    return received


MOST_BYTES = 8192
"""Of the first line of a request and its headers; who asks for a page sends a tenth of it."""
TEXT = "text/plain; charset=utf-8"
_END = re.compile(rb"\n\r?\n")


class Page(Struct, frozen=True):
    body: bytes
    content_type: str = TEXT
    status: HTTPStatus = HTTPStatus.OK


Pages = Mapping[str, Callable[[], Page]]
"""What makes a page, by its path."""


def is_whole(request: bytes) -> bool:
    """Whether ``answer`` needs no more of it: its headers have ended, or are too long."""
    return len(request) >= MOST_BYTES or _END.search(request) is not None


def answer(request: bytes, pages: Pages) -> bytes:
    """The answer, after which the connection is to be closed; empty where nothing was asked."""
    return _Answered(request, pages).wfile.getvalue()


class _Answered(BaseHTTPRequestHandler):
    """``wfile`` has the answer."""

    protocol_version = "HTTP/1.1"
    default_request_version = "HTTP/1.0"  # else an error has no headers where none is understood
    error_content_type = TEXT
    error_message_format = "%(message)s: %(explain)s\n"
    wfile: BytesIO

    def __init__(self, request: bytes, pages: Pages) -> None:
        self.rfile, self.wfile = BytesIO(request), BytesIO()
        self._pages = pages
        if len(request) >= MOST_BYTES and not _END.search(request):
            self.command = self.requestline = self.request_version = ""
            self.send_error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        else:
            self.handle_one_request()

    def do_GET(self) -> None:
        make = self._pages.get(self.path.partition("?")[0])
        if make is None:
            self.send_error(HTTPStatus.NOT_FOUND, explain=f"here are {', '.join(self._pages)}")
            return
        page = make()
        self.send_response(page.status)
        self.send_header("Content-Type", page.content_type)
        self.send_header("Content-Length", str(len(page.body)))
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(page.body)

    do_HEAD = do_GET  # noqa: N815

    def version_string(self) -> str:
        """Without Python's version, which is nobody's business."""
        return "ascend_supervisor"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing is told of a request, however bad it is."""
