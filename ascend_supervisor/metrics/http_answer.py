"""From the bytes of an HTTP request to those of its answer.

The standard library reads the one and writes the other, but gets no socket: it would block.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from io import BytesIO

from msgspec import Struct

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
