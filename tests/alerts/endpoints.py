"""Endpoints on loopback, in a thread of their own: they keep what they got, and may misbehave."""

from __future__ import annotations

import http.server
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from tests.etcd.servers import Tls


class Endpoint:
    """``requests`` are the paths and bodies that have come so far."""

    def __init__(self, scheme: str, port: int) -> None:
        self.url = f"{scheme}://127.0.0.1:{port}/hook/secret?token=abc"
        self.requests: list[tuple[str, Any]] = []

    @property
    def messages(self) -> list[Any]:
        return [body for _, body in self.requests]


Answer = Callable[[http.server.BaseHTTPRequestHandler], None]


def answering(status: int, body: bytes = b"", **headers: str) -> Answer:
    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def hanging(_: http.server.BaseHTTPRequestHandler) -> None:
    time.sleep(600)


def flooding(handler: http.server.BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(b"x" * 65536)


def dripping(handler: http.server.BaseHTTPRequestHandler) -> None:
    while True:
        handler.wfile.write(b"x")
        time.sleep(0.05)


def closing(_: http.server.BaseHTTPRequestHandler) -> None:
    """No answer at all."""


@contextmanager
def endpoint(answer: Answer, tls: Tls | None = None) -> Iterator[Endpoint]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            one.requests.append((self.path, json.loads(body)))
            with suppress(OSError):
                answer(self)

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, *_: object) -> None:
            """A client that refuses the certificate is no news."""

    with Server(("127.0.0.1", 0), Handler) as server:
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls.certificate, tls.key)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        one = Endpoint("http" if tls is None else "https", server.server_port)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield one
        server.shutdown()
        thread.join()
