"""The last lines of a log, whatever files it is in and however it ends."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ascend_supervisor.output.growing_logs import PIECE_BYTES, Tail


def last_of(log: Path, lines: int) -> bytes:
    tail = Tail(log)
    tail.skip_to_last(lines)
    found = b"".join(tail.more())
    tail.close()
    return found


def log_of(directory: Path, *files: bytes) -> Path:
    """A log in these files, the oldest first."""
    log = directory / "log"
    for number, content in enumerate(reversed(files)):
        (directory / f"log.{number}" if number else log).write_bytes(content)
    return log


@pytest.mark.parametrize(
    ("content", "lines", "expected"),
    [
        (b"", 3, b""),
        (b"one\n", 0, b""),
        (b"one", 0, b""),
        (b"one\n", 1, b"one\n"),
        (b"one", 1, b"one"),
        (b"one\ntwo\n", 1, b"two\n"),
        (b"one\ntwo", 1, b"two"),
        (b"one\ntwo", 2, b"one\ntwo"),
        (b"one\ntwo\n", 9, b"one\ntwo\n"),
        (b"\n\n\n", 2, b"\n\n"),
        (b"one\n\ntwo\n", 2, b"\ntwo\n"),
        (b"one\r\ntwo\r\n", 1, b"two\r\n"),
        (b"one\n\xff\x00two\n", 1, b"\xff\x00two\n"),
        (b"x" * 3 * PIECE_BYTES, 1, b"x" * 3 * PIECE_BYTES),
    ],
)
def test_the_last_lines_are_those_at_the_end(tmp_path, content, lines, expected):
    assert last_of(log_of(tmp_path, content), lines) == expected


@pytest.mark.parametrize("lines", [1, 2, 5, 4000, 20_000])
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_any_number_of_lines_over_many_pieces(tmp_path, lines, end):
    whole = b"\n".join(b"%d %s" % (number, b"x" * (number % 97)) for number in range(10_000)) + end
    expected = b"".join(whole.splitlines(keepends=True)[-lines:])
    assert len(whole) > 5 * PIECE_BYTES
    assert last_of(log_of(tmp_path, whole), lines) == expected


@pytest.mark.parametrize("size", [PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1])
def test_a_newline_at_the_edge_of_a_piece_is_counted_once(tmp_path, size):
    last = b"y" * (size - 1) + b"\n"
    assert last_of(log_of(tmp_path, b"one\ntwo\n" + last), 1) == last
    assert last_of(log_of(tmp_path, b"one\ntwo\n" + last), 2) == b"two\n" + last


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (1, b"six\n"),
        (2, b"five\nsix\n"),
        (3, b"four\nfive\nsix\n"),
        (6, b"one\ntwo\nthree\nfour\nfive\nsix\n"),
        (9, b"one\ntwo\nthree\nfour\nfive\nsix\n"),
    ],
)
def test_lines_of_rotated_files_count_in_their_order(tmp_path, lines, expected):
    log = log_of(tmp_path, b"one\ntwo\n", b"three\nfour\n", b"five\nsix\n")
    assert last_of(log, lines) == expected


def test_a_new_file_without_a_line_does_not_hide_the_one_before(tmp_path):
    assert last_of(log_of(tmp_path, b"one\ntwo\n", b""), 1) == b"two\n"


def test_a_line_that_was_cut_by_a_rotation_is_one_line(tmp_path):
    assert last_of(log_of(tmp_path, b"one\nbegun and ", b"ended\ntwo\n"), 2) == (
        b"begun and ended\ntwo\n"
    )


def test_what_is_written_and_rotated_afterwards_follows_without_a_gap(tmp_path):
    log = log_of(tmp_path, b"old\n", b"one\ntwo\n")
    tail = Tail(log)
    tail.skip_to_last(1)
    with log.open("ab") as more:
        more.write(b"three\n")
    (tmp_path / "log.1").replace(tmp_path / "log.2")
    log.replace(tmp_path / "log.1")
    log.write_bytes(b"four\n")
    assert b"".join(tail.more()) == b"two\nthree\nfour\n"
    assert tail.trouble is None
    tail.close()


def test_a_log_that_is_not_there_yet_is_read_from_its_beginning(tmp_path):
    tail = Tail(tmp_path / "log")
    tail.skip_to_last(1)
    (tmp_path / "log").write_bytes(b"one\ntwo\n")
    assert b"".join(tail.more()) == b"one\ntwo\n"
    tail.close()


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_file_is_told_and_not_waited_for(tmp_path, make):
    make(tmp_path / "log")
    tail = Tail(tmp_path / "log")
    tail.skip_to_last(1)
    assert list(tail.more()) == []
    assert tail.trouble is not None
