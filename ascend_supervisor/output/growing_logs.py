"""Logs that still grow: reads them from their beginning, through all rotations.

Only one piece of a file is held in memory.
"""

from __future__ import annotations

import errno
import os
import select
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path

from ascend_supervisor.files.regular_file import open_regular_file
from ascend_supervisor.files.standard_streams import closed_stdout
from ascend_supervisor.output.last_lines import open_at_last_lines
from ascend_supervisor.output.rotating_log import RotatedLog

POLL_SECONDS = 0.2
"""How often to check for more; file events do not cross network file systems."""
PIECE_BYTES = 64 * 1024
STDOUT = 1

Put = Callable[[bytes], None]


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
        while (following := self._following()) >= 0:
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

    def _following(self) -> int:
        """A descriptor of the file that follows the current one; -1 if there is none.

        A new file counts when it has a byte: until then its writer uses the old one.
        """
        with suppress(OSError):
            newest = self.path.stat()
            if newest.st_size and not os.path.samestat(newest, os.fstat(self._file)):
                return self._log.opened_after(self._file)
        return -1


Tails = Collection[tuple[Tail, Put]]
"""Logs, and where each of them goes."""


def print_all(tails: Tails) -> bool:
    """Print what is there, log by log; returns whether there was anything."""
    found = False
    for tail, put in tails:
        for piece in tail.more():
            put(piece)
            found = True
    return found


def follow(look: Callable[[], tuple[Tails, bool]]) -> None:
    """Print what is there and what comes; ``look`` returns the logs, and whether more may come.

    Raises BrokenPipeError as soon as the reader of our output is gone, StdoutLost if stdout is
    closed.
    """
    while True:
        tails, goes_on = look()  # first: what was written until then is found below
        found = print_all(tails)
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
