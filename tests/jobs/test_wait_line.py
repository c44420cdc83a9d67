"""Long waits of whole jobs on a terminal: one line, of which nothing stays."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.running import Running, python, wait_until
from tests.terminals import Window

COLUMNS = 100
NAME = "table.json"
STUBBORN = """
import os, signal, time
signal.signal(signal.SIGTERM, lambda *_: os.write(1, b"asked\\n"))
os.write(1, b"up\\n")
for _ in range(600):
    time.sleep(0.1)  # a signal just before a sleep does not end it
os.write(1, b"the end\\n")
"""


@pytest.fixture
def window() -> Iterator[Window]:
    window = Window(COLUMNS, 24)
    yield window
    window.close()


@pytest.fixture
def on_terminal(supervised, window) -> Callable[..., Running]:
    """``on_terminal(*arguments, term=...)`` starts a supervisor on ``window``."""

    def start(*arguments: str, term: str = "xterm") -> Running:
        job: Running = supervised(*arguments, stdout=window.stdout, environ={"TERM": term})
        return job

    return start


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """One that is not completed."""
    path = tmp_path / NAME
    path.write_text('{"status": "initializing"}')
    return path


def last_line_begins(window: Window, words: str) -> bool:
    return bool(window.lines) and window.lines[-1].startswith(words)


def seconds_in_last_line(window: Window, words: str, limit: str) -> int:
    """How long it has waited, as the last line says after ``words``; 0 if it does not."""
    line = window.lines[-1] if window.lines else ""
    found = re.match(rf"{re.escape(words)} \((\d+) s, until {limit}\)", line)
    return int(found[1]) if found else 0


def waiting_lines(window: Window) -> list[str]:
    return [line for line in window.lines if line.startswith("waiting ")]


def test_the_wait_for_the_table_is_one_line_of_which_nothing_stays(on_terminal, window, table):
    job = on_terminal("--rank-table", NAME, "--rank-table-timeout", "1800", "--", "true")
    words = f"waiting for the rank table {NAME}: status is 'initializing'"
    shown = partial(seconds_in_last_line, window, words, "30 min")
    wait_until(shown)
    before = shown()
    wait_until(lambda: shown() > before)  # it is kept current
    assert len(waiting_lines(window)) == 1
    table.write_text("")
    wait_until(lambda: "the file is empty" in window.lines[-1])
    window.resize(40, 24)
    wait_until(lambda: len(waiting_lines(window)[-1]) < 40)
    job.send(signal.SIGTERM)
    assert job.end() == 143
    window.close()
    assert waiting_lines(window) == []
    assert window.lines[-1].endswith("ending with exit code 143")


def test_the_wait_before_a_restart_is_counted_down(on_terminal, window):
    job = on_terminal(
        *("--restarts", "1", "--restart-delay", "0", "--release-delay", "3"),
        *("--standalone", "1", "--", "sh", "-c", "echo up; exit 3"),
    )
    words = "waiting before the restart of all ranks"
    wait_until(partial(seconds_in_last_line, window, words, "3 s"))
    assert job.end() == 3
    window.close()
    assert waiting_lines(window) == []
    assert [line for line in window.lines if line.startswith("[rank 0] ")] == ["[rank 0] up"] * 2


def test_the_wait_for_the_end_of_processes_is_one_line(on_terminal, window):
    job = on_terminal("--grace", "600", "--standalone", "2", *python(STUBBORN))
    wait_until(lambda: window.lines.count("[rank 0] up") and window.lines.count("[rank 1] up"))
    job.send(signal.SIGTERM)
    wait_until(lambda: last_line_begins(window, "waiting for the end of "))
    job.send(signal.SIGQUIT)
    assert job.end() == 143
    window.close()
    assert waiting_lines(window) == []
    assert window.lines.count("[rank 0] asked") == window.lines.count("[rank 1] asked") == 1
    assert not any("stop.waiting" in line or "still waiting" in line for line in window.lines)


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_terminal_that_cannot_erase_gets_lines_as_a_file_does(on_terminal, window, table, term):
    job = on_terminal("--rank-table", NAME, "--", "true", term=term)
    wait_until(lambda: any("status is 'initializing'" in line for line in window.lines))
    job.send(signal.SIGTERM)
    assert job.end() == 143
    window.close()
    assert b"\x1b" not in window.data
    (told,) = (line for line in window.lines if "waiting for the rank table" in line)
    words = f"waiting for the rank table {NAME}: status is 'initializing' (0 s so far)"
    assert told.endswith(f" {words}")


def test_what_is_written_into_a_file_has_no_such_line(supervised, tmp_path, table):
    path = tmp_path / "out"
    with path.open("wb") as file:
        job = supervised(
            *("--console", "text", "--rank-table", NAME, "--", "true"),
            stdout=file.fileno(),
            environ={"TERM": "xterm"},
        )
        wait_until(lambda: b"initializing" in path.read_bytes())
        job.send(signal.SIGTERM)
        assert job.end() == 143
    text = path.read_text()
    assert "\x1b" not in text
    assert "\r" not in text
    assert text.count("waiting for the rank table") == 1
