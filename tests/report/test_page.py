"""The page of a job, in a real browser."""

from __future__ import annotations

import re
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ascend_supervisor.report.job import job
from ascend_supervisor.report.page import page
from ascend_supervisor.report.words import LANGUAGES, WORDS
from tests.report.chromium import DARK, measured, needs_chromium, shown
from tests.report.logs import DONE, HANGS, LOSING, NAN, on

pytestmark = pytest.mark.one_python

PHONE = 390


def paged(path: Path, events, language="en") -> Path:
    found = job(events)
    assert found is not None
    path.write_bytes(page(found, language))
    return path


class Listener:
    """Counts who connects to a port of this machine."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.connections = 0
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        while True:
            connection, _ = self._socket.accept()
            with connection:
                if connection.recv(4) == b"stop":
                    return
                self.connections += 1

    def close(self) -> None:
        with socket.create_connection(self._socket.getsockname()) as last:
            last.send(b"stop")
        self._thread.join()
        self._socket.close()


@pytest.fixture
def listener() -> Iterator[Listener]:
    found = Listener()
    yield found
    found.close()


def hostile(url: str) -> str:
    return (
        f'"><img src="{url}/a"><script src="{url}/b"></script><link rel=stylesheet href="{url}/c">'
        f"</style></title></pre></svg><iframe src={url}/d></iframe>"
    )


@needs_chromium
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_browser_shows_all_of_it_without_an_error(tmp_path, language):
    dom, console = shown(paged(tmp_path / "r.html", LOSING, language), "--dump-dom")
    assert console == []
    assert f'<html lang="{language}">' in dom
    words = WORDS[language]
    for said in (HANGS, NAN, "46.3 %", "reading shard 17", "/log/rank-1.txt", "python train.py"):
        assert said in dom
    for key in ("account", "progress", "timeline", "failures", "settings", "versions"):
        assert words[key] in dom
    assert dom.index("<h1") < dom.index(words["to_do"]) < dom.index("<h2")


@needs_chromium
def test_what_ranks_print_loads_nothing_and_breaks_nothing(tmp_path, listener):
    text = hostile(listener.url)
    events = [
        {
            key: text if key in {"host", "cause", "summary", "directory", "reason"} else value
            for key, value in {**one, "last_lines": [text, text], "settings": [text]}.items()
        }
        for one in LOSING
    ]
    dom, console = shown(paged(tmp_path / "r.html", [*LOSING, *events]), "--dump-dom")
    assert console == []
    assert listener.connections == 0
    assert dom.count("<img") == dom.count("<script") == dom.count("<iframe") == 0
    assert "&lt;img src=" in dom


@needs_chromium
def test_a_page_that_loads_something_is_found(tmp_path, listener):
    (tmp_path / "bad.html").write_text(f"<img src={listener.url}/a><script>nobody()</script>")
    _, console = shown(tmp_path / "bad.html", "--dump-dom")
    assert listener.connections > 0
    assert any("nobody is not defined" in line for line in console)


@needs_chromium
def test_it_fits_on_a_phone_and_is_dark_in_the_dark(tmp_path):
    long = [*LOSING, *on("a-pod-with-quite-a-long-name-worker-0-of-the-job-1234567890", LOSING)]
    path = paged(tmp_path / "r.html", long)
    queries = {
        "beyond": "page.documentElement.scrollWidth - page.documentElement.clientWidth",
        "colour": "frame.contentWindow.getComputedStyle(page.body).backgroundColor",
        "small": "Math.min(...[...page.querySelectorAll('text, p, td, li')].map(one => "
        "parseFloat(frame.contentWindow.getComputedStyle(one).fontSize)))",
        "rows": "page.querySelectorAll('svg .name').length",
    }
    light = measured(path, PHONE, queries)
    dark = measured(path, PHONE, queries, DARK)
    assert light == {"beyond": 0, "colour": "rgb(255, 255, 255)", "small": 12, "rows": 2}
    assert dark == {**light, "colour": "rgb(13, 17, 23)"}


@needs_chromium
def test_the_keyboard_reaches_what_can_be_opened(tmp_path):
    queries = {
        "details": "page.querySelectorAll('details').length",
        "reached": "[...page.querySelectorAll('summary')].filter(one => { one.focus(); "
        "return page.activeElement === one }).length",
    }
    found = measured(paged(tmp_path / "r.html", LOSING), PHONE, queries)
    assert found["details"] == found["reached"] == 2


@needs_chromium
def test_it_is_printed_and_is_a_picture(tmp_path):
    path = paged(tmp_path / "r.html", LOSING)
    shown(path, f"--print-to-pdf={tmp_path / 'r.pdf'}")
    printed = (tmp_path / "r.pdf").read_bytes()
    assert printed.startswith(b"%PDF")
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 3
    shown(path, f"--screenshot={tmp_path / 'r.png'}", "--window-size=900,1200", "--hide-scrollbars")
    assert struct.unpack(">II", (tmp_path / "r.png").read_bytes()[16:24]) == (900, 1200)


def test_it_names_no_address_and_has_no_script(tmp_path):
    text = paged(tmp_path / "r.html", LOSING).read_text()
    addresses = set(re.findall(r"\w+://[^\"'\s<]+", text))
    assert addresses == {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}  # names
    assert "default-src &#39;none&#39;" in text or "default-src 'none'" in text
    assert "<script" not in text


def test_a_job_without_failures_says_so(tmp_path):
    text = paged(tmp_path / "r.html", DONE).read_text()
    assert "The job ended well after 51 s" in text
    assert WORDS["en"]["failures.none"] in text
