"""Whatever is asked, the answer is one that HTTP knows."""

from __future__ import annotations

from http import HTTPStatus
from http.client import HTTPResponse
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_supervisor.metrics.metrics_address import MOST_BYTES, TEXT, Page, answer, is_whole

PAGES = {
    "/a": lambda: Page(b"page a\n", "text/special"),
    "/b": lambda: Page(b"page b\n", status=HTTPStatus.SERVICE_UNAVAILABLE),
}


class _Socket:
    """What http.client reads an answer from."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def makefile(self, *_: object) -> BytesIO:
        return BytesIO(self._content)


def read(content: bytes, method: str = "GET") -> tuple[int, dict[str, str], bytes]:
    socket: Any = _Socket(content)
    response = HTTPResponse(socket, method=method)
    response.begin()
    return response.status, dict(response.headers), response.read()


def asked(request: str, method: str = "GET") -> tuple[int, dict[str, str], bytes]:
    return read(answer(request.encode("latin-1"), PAGES), method)


def test_a_page_comes_with_its_type_and_length_and_ends_the_connection():
    status, headers, body = asked("GET /a HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (status, body) == (200, b"page a\n")
    del headers["Date"]
    assert headers == {
        "Server": "ascend_supervisor",
        "Content-Type": "text/special",
        "Content-Length": "7",
        "Connection": "close",
    }


@pytest.mark.parametrize("path", ["/a", "/b", "/c"])
def test_head_has_the_headers_of_get_and_no_body(path):
    there = asked(f"GET {path} HTTP/1.1\r\n\r\n")
    status, headers, body = asked(f"HEAD {path} HTTP/1.1\r\n\r\n", "HEAD")
    for told in (there[1], headers):
        del told["Date"]
    assert (status, headers, body) == (there[0], there[1], b"")


@pytest.mark.parametrize(
    ("request_text", "status", "says"),
    [
        ("GET /a?x=/b HTTP/1.1\r\n\r\n", 200, "page a"),
        ("GET /a HTTP/1.0\n\n", 200, "page a"),
        ("GET /b HTTP/1.1\r\n\r\n", 503, "page b"),
        ("GET /c HTTP/1.1\r\n\r\n", 404, "Not Found: here are /a, /b"),
        ("GET /../a HTTP/1.1\r\n\r\n", 404, "Not Found"),
        ("POST /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nx=1", 501, "Unsupported method ('POST')"),
        ("GET /a HTTP/2.0\r\n\r\n", 505, "Invalid HTTP version"),
        ("\x16\x03\x01 \xff\r\n\r\n", 400, "Bad"),
        ("GET /a HTTP/1.1\r\n" + "X: y\r\n" * 200 + "\r\n", 431, "Too many headers"),
        ("GET /a HTTP/1.1\r\nX: " + "y" * MOST_BYTES, 431, "Request Header Fields Too Large"),
        ("y" * MOST_BYTES, 431, "Request Header Fields Too Large"),
    ],
)
def test_what_is_wrong_is_told(request_text, status, says):
    found, headers, body = asked(request_text)
    assert (found, headers["Connection"]) == (status, "close")
    assert says in body.decode()
    assert status < 400 or status == 503 or headers["Content-Type"] == TEXT


def test_who_asks_nothing_gets_nothing():
    assert answer(b"", PAGES) == b""


def test_a_request_is_whole_at_its_empty_line_or_when_it_is_too_long():
    assert not is_whole(b"GET /a HTTP/1.1\r\nHost: x\r\n")
    assert is_whole(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n")
    assert is_whole(b"GET /a HTTP/1.1\n\nbody")
    assert not is_whole(b"x" * (MOST_BYTES - 1))
    assert is_whole(b"x" * MOST_BYTES)


WORDS = st.sampled_from(
    [
        *(b"GET", b"HEAD", b"POST", b" ", b"/a", b"HTTP/1.1", b"HTTP/0.9", b"HTTP/"),
        *(b"Expect: 100-continue", b"Connection: ", b":", b"\r\n", b"\n", b"\0", b"\xff", b"\x85"),
    ]
)


@given(st.lists(WORDS | st.binary(max_size=9), max_size=20).map(b"".join))
def test_whatever_comes_there_is_an_answer_or_none(request_bytes):
    found = answer(request_bytes, PAGES)
    if found.startswith(b"HTTP/"):
        assert read(found)[0] in {200, 400, 404, 431, 501, 503, 505}
    else:  # of HTTP 0.9, which has no headers
        assert found == b"" or found.startswith((b"page", b"Not Found", b"Unsupported", b"Bad"))
