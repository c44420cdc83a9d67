"""Serves the figures over HTTP, and two pages for probes (--metrics-address)."""

from __future__ import annotations

import errno
from collections.abc import Callable
from http import HTTPStatus

import anyio

from ascend_supervisor.errors import Unavailable
from ascend_supervisor.events import Event
from ascend_supervisor.files.clients import Client, Clients
from ascend_supervisor.files.regular_file import reason_of
from ascend_supervisor.files.tcp_listener import TcpListener
from ascend_supervisor.metrics.figures import Snapshot
from ascend_supervisor.metrics.http_answer import MOST_BYTES, Page, answer, is_whole
from ascend_supervisor.metrics.registry import Registry
from ascend_supervisor.reporters.python_warnings import defect
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
