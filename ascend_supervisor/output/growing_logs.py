"""Logs that still grow: read from their beginning or their last lines, through all rotations.

``name`` is the newest file, ``name.1`` the one before it, and so on. They may be renamed at any
time; an open file is recognised by its inode. Only one piece of a file is held in memory.
"""

from __future__ import annotations

import errno
import os
import select
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from ascend_supervisor.files.regular_file import open_regular_file
from ascend_supervisor.files.standard_streams import closed_stdout

_MISSING_AFTER_THE_LAST = 2


class RotatedLog(Struct, frozen=True):
    """The log whose newest file is at ``path``."""

    path: Path

    def opened_after(self, descriptor: int) -> int:
        """A descriptor of the file that follows this one; raises OSError."""
        while True:
            number = self._number_of(descriptor)
            file = open_regular_file(self._numbered(number - 1) if number else self.path)
            if number == self._number_of(descriptor):
                return file
            os.close(file)  # a rotation came between

    def opened_before(self, descriptor: int) -> int:
        """A descriptor of the file before this one; raises OSError if there is none."""
        while True:
            number = self._number_of(descriptor)
            if not number and not self._is_newest(descriptor):
                raise FileNotFoundError(f"{self.path} was replaced")
            file = open_regular_file(self._numbered(number + 1))
            if number == self._number_of(descriptor):
                return file
            os.close(file)

    def following(self, descriptor: int) -> int:
        """A descriptor of the file that follows this one; -1 if there is none.

        A new file counts when it has a byte: until then its writer uses the old one.
        """
        with suppress(OSError):
            newest = self.path.stat()
            if newest.st_size and not os.path.samestat(newest, os.fstat(descriptor)):
                return self.opened_after(descriptor)
        return -1

    def _number_of(self, descriptor: int) -> int:
        """The rotation number of this file; 0 if it has none.

        While the files are being renamed, from the highest number down, one number is missing.
        """
        missing = number = 0
        while missing < _MISSING_AFTER_THE_LAST:
            number += 1
            try:
                if os.path.samestat(self._numbered(number).stat(), os.fstat(descriptor)):
                    return number
            except OSError:
                missing += 1
        return 0

    def _is_newest(self, descriptor: int) -> bool:
        return os.path.samestat(self.path.stat(), os.fstat(descriptor))

    def _numbered(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}") if number else self.path


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


POLL_SECONDS = 0.2
"""How often to check for more; file events do not cross network file systems."""
STDOUT = 1

PutBytes = Callable[[bytes], None]


class Tail:
    """The log at ``path``, from its beginning on.

    Rotated files are recognised by their inodes: after ``name`` has become ``name.1``, the rest of
    it comes first, then every newer file. A file that is rotated away unread is lost.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.trouble: OSError | None = OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        """Why nothing of it could be read so far."""
        self._log = RotatedLog(path)
        self._file = -1
        self._at = 0

    def skip_to_last(self, lines: int) -> None:
        """Begin with the last ``lines`` lines of what is there now; to be called first.

        A log that does not exist yet is read from its beginning.
        """
        with suppress(OSError):  # ``more`` finds the reason again
            self._file, self._at = open_at_last_lines(self.path, lines)
            self.trouble = None

    def more(self) -> Iterator[bytes]:
        """What is there now and was not returned yet, in pieces."""
        if self._file < 0 and not self._open_first():
            return
        yield from self._appended()
        while (following := self._log.following(self._file)) >= 0:
            try:
                yield from self._appended()  # the last lines before its writer changed files
            finally:
                self._go_on(following)
            yield from self._appended()

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _open_first(self) -> bool:
        try:
            self._go_on(open_regular_file(self.path))
        except OSError as error:
            self.trouble = error
            return False
        self.trouble = None
        return True

    def _go_on(self, file: int) -> None:
        self.close()
        self._file, self._at = file, 0

    def _appended(self) -> Iterator[bytes]:
        end = os.fstat(self._file).st_size
        if end < self._at:  # truncated in place: what is there now is new
            self._at = 0
        while self._at < end:
            piece = os.pread(self._file, min(PIECE_BYTES, end - self._at), self._at)
            if not piece:
                return
            self._at += len(piece)
            yield piece


def follow(look: Callable[[], tuple[bool, bool]]) -> None:
    """Print what is there and what comes: ``look`` prints it.

    It returns whether there was anything, and whether more may come. Raises BrokenPipeError as soon
    as the reader of our output is gone, StdoutLost if stdout is closed.
    """
    while True:
        found, goes_on = look()
        if not found and not goes_on:
            return
        if not found:
            _wait()


def _wait() -> None:
    """Wait for one poll interval; on a pipe, only while it has a reader."""
    poll = select.poll()
    poll.register(STDOUT, 0)
    for _, found in poll.poll(POLL_SECONDS * 1000):
        raise closed_stdout() if found & select.POLLNVAL else BrokenPipeError
