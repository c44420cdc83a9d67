"""Where the last lines of a log begin, found from its end; one piece is held in memory."""

from __future__ import annotations

import os
from pathlib import Path

from ascend_supervisor.files.regular_file import open_regular_file
from ascend_supervisor.output.rotating_log import RotatedLog

PIECE_BYTES = 64 * 1024


def open_at_last_lines(path: Path, lines: int) -> tuple[int, int]:
    """A descriptor, and the offset from which ``lines`` lines follow, rotated files included.

    An unfinished line counts. If the log has fewer lines, this is its beginning. Raises OSError if
    the newest file cannot be read.
    """
    log = RotatedLog(path)
    file = open_regular_file(path)
    size = os.fstat(file).st_size
    if not lines:
        return file, size
    is_unfinished = size > 0 and os.pread(file, 1, size - 1) != b"\n"
    missing = lines if is_unfinished else lines + 1
    while True:
        at, missing = _back(file, missing)
        if not missing:
            return file, at
        try:
            before = log.opened_before(file)
        except OSError:
            return file, 0
        os.close(file)
        file = before


def _back(file: int, newlines: int) -> tuple[int, int]:
    """The offset after the last but so many newlines, and how many are missing before it."""
    end = os.fstat(file).st_size
    while end > 0:
        start = max(end - PIECE_BYTES, 0)
        piece = os.pread(file, end - start, start)
        found = piece.count(b"\n")
        if found >= newlines:
            return start + _after_newline(piece, newlines), 0
        newlines -= found
        end = start
    return 0, newlines


def _after_newline(piece: bytes, number: int) -> int:
    """Where ``piece`` goes on after its newline of this ``number``, from 1, from the end."""
    at = len(piece)
    for _ in range(number):
        at = piece.rindex(b"\n", 0, at)
    return at + 1
