"""Ranks that write to steer the terminal of whoever watches, or to forge lines of ours."""

from __future__ import annotations

import os

import pytest

from tests.running import python
from tests.terminals import FORGED, WORDS, Screen, steering

# What a rank writes is shown alike in all ways.
pytestmark = pytest.mark.parametrize("way", ["ordinary"], indirect=True)

STEERS = f"""
import json, os
words = {WORDS!r} + ({FORGED!r}, "\\x1b[32mgreen\\x1b[0m")
for word in words:
    data = word.encode()
    middle = len(data) // 2
    os.write(1, data[:middle])
    os.write(1, data[middle:] + b"\\n")
told = "\\n".join(words)
with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
    json.dump({{"message": {{"message": "ValueError\\n" + told}}}}, file)
raise SystemExit(3)
"""


def assert_nothing_is_forged(text: str) -> None:
    """What it wrote is shown, and never at the beginning of a line."""
    assert FORGED in text
    assert not [line for line in text.split("\n") if line.startswith(FORGED)]
    assert not steering(text)


def test_the_text_console_is_not_steered_and_shows_no_forged_line(bad_day, place):
    screen = Screen()
    options = ("--standalone", "1", "--termination-log", str(place / "termination"))
    job = bad_day(
        *options,
        "--console",
        "text",
        *python(STEERS),
        stdout=screen.stdout,
        environ={"TERM": "xterm"},
    )
    assert job.end() == 3
    text = screen.text()
    assert_nothing_is_forged(text)
    assert "\x1b[36m[rank 0]\x1b[0m \x1b[32mgreen\x1b[0m\x1b[0m\n" in text
    assert_nothing_is_forged((place / "termination").read_text())


def test_where_no_terminal_is_the_text_has_no_escape_at_all(bad_day):
    read_end, write_end = os.pipe()
    options = ("--standalone", "1", "--console", "text")
    job = bad_day(*options, *python(STEERS), stdout=write_end)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as stdout:
        text = stdout.read().decode()
    assert job.end() == 3
    assert_nothing_is_forged(text)
    assert "\x1b" not in text
    assert "[rank 0] green\n" in text
