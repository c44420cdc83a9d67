"""Regular expressions for ``--grep``: what grep finds is what Python finds."""

from __future__ import annotations

import os
import shutil

import pytest

from ascend_supervisor.ctl.line_heads import Span
from ascend_supervisor.ctl.line_patterns import read_pattern
from ascend_supervisor.ctl.line_selection import search
from ascend_supervisor.ctl.log_parts import LogPart

GREP = shutil.which("grep")
TEXT = (
    "loss 1.5\nError: out of memory\n\nERROR 错误 on rank 12\na+b a.b (x) [y] {z}\n".encode()
    + b"tab\there \xff\xfe bytes\0nul\r\nend $5 ^ | \\ \n"
    + b"ab abab aab\n12 34\n--\n12:34\nlast error"
)
SIMPLE = [
    *("error", "(?i)error", "Error|loss", "^ERROR", "memory$", "\\d{2}", "\\d+ \\d"),
    *("错误", "错+误", "(?:ab){2}", "(ab)+ ", "a*?b", "a+?b", "x?", "^$", ".", "\\bon\\b", "\\w+:"),
    *("a\\+b", "\\(x\\)", "\\[y\\]", "\\{z\\}", "\\$5", "\\\\", "\\|", "[^a-z]$", "nul", "\\s\\S"),
    *("", "^-", "--", "[0-9]+\\.[0-9]", "out.of", "a|b|", "\\t", "[ab]{3}", "[.]b", "\\<", "\\-"),
]
ONLY_PYTHON = [
    *("(?<!E)rror", "(?=loss)l", "\\Aloss", "bytes\\x00", "(a)\\1", "[\\d]+", "r\\Z", "{z}"),
]


@pytest.fixture
def part(tmp_path):
    (tmp_path / "log").write_bytes(b"before: error\n" + TEXT)
    descriptor = os.open(tmp_path / "log", os.O_RDONLY)
    yield LogPart(descriptor, len(b"before: error\n"), len(TEXT) + 14, Span(0.0, 0.0))
    os.close(descriptor)


def lines_that_match(text: str) -> list[bytes]:
    pattern = read_pattern(text).of_line
    return [line for line in TEXT.split(b"\n") if pattern.search(line)]


@pytest.mark.skipif(GREP is None, reason="grep is not installed")
@pytest.mark.parametrize("text", SIMPLE)
def test_grep_finds_what_python_finds(part, text):
    pattern = read_pattern(text)
    if text != "\\t":
        assert pattern.ere is not None
    by_grep = list(search(part, pattern, 0, GREP))
    by_python = list(search(part, pattern, 0, None))
    assert [hit.line.removesuffix(b"\n") for hit in by_python] == lines_that_match(text)
    assert [hit.offset for hit in by_grep] == [hit.offset for hit in by_python]
    assert [hit.line.strip(b"\n") for hit in by_grep] == lines_that_match(text)


@pytest.mark.parametrize("text", ONLY_PYTHON)
def test_what_grep_might_read_otherwise_is_not_given_to_it(part, text):
    pattern = read_pattern(text)
    assert pattern.ere is None
    found = [hit.line.removesuffix(b"\n") for hit in search(part, pattern, 0, GREP)]
    assert found == lines_that_match(text) != []


@pytest.mark.skipif(GREP is None, reason="grep is not installed")
@pytest.mark.parametrize("size", [1, 2, 5, 50])
@pytest.mark.parametrize("text", ["rror", "memory", "^$", "\\d", "ab", "last", "loss"])
def test_the_lines_around_are_those_of_grep(part, text, size):
    pattern = read_pattern(text)
    by_grep = [(hit.offset, hit.matches) for hit in search(part, pattern, size, GREP)]
    assert [(hit.offset, hit.matches) for hit in search(part, pattern, size, None)] == by_grep


@pytest.mark.parametrize(
    ("text", "about"),
    [("x(", "unterminated"), ("*", "repeat"), ("[错误]", "[]"), ("a{9999999999}", "")],
)
def test_a_bad_pattern_is_told(text, about):
    with pytest.raises(ValueError, match=r".") as told:
        read_pattern(text)
    assert about in str(told.value)


def test_a_grep_that_cannot_do_it_leaves_it_to_python(part, tmp_path):
    other = tmp_path / "grep"
    other.write_text("#!/bin/sh\necho 'usage: grep' >&2\nexit 2\n")
    other.chmod(0o755)
    (hit,) = search(part, read_pattern("memory"), 0, str(other))
    assert hit.line == b"Error: out of memory\n"


def test_a_grep_that_fails_halfway_is_told(part, tmp_path):
    other = tmp_path / "grep"
    other.write_text("#!/bin/sh\necho 0:loss 1.5\nexit 2\n")
    other.chmod(0o755)
    hits = search(part, read_pattern("loss"), 0, str(other))
    assert next(hits).line == b"loss 1.5\n"
    with pytest.raises(OSError, match="grep ended with 2"):
        next(hits)
