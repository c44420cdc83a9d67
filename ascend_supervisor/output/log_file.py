"""A log file that grows at its end, is rotated between lines, and starts with a line of its own.

Everything here may block on the disk: it belongs in a writer's thread.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

from msgspec import Struct

from ascend_supervisor.files.directories import make_directories
from ascend_supervisor.files.regular_file import (
    close_quietly,
    move_to,
    open_to_write,
    refuse_to_replace,
)
from ascend_supervisor.output.earlier_logs import set_aside

LOG_MODE = 0o640
UNCUT_BYTES = 16 * 1024 * 1024
"""A file that is due for rotation may grow by this much if a line does not end."""


class Rotation(Struct, frozen=True):
    """At ``max_bytes`` a file becomes ``name.1``, the one before it ``name.2``, up to ``keep``.

    ``start`` is the label of this start, if files of others are to be set aside at the beginning.
    If it ``continues``, a start goes on in the file of the one before.
    """

    max_bytes: int
    keep: int
    start: str = ""
    continues: bool = False


class LogFile:
    """One log. ``header`` returns the first line of every file, by which log shippers know it."""

    def __init__(self, path: Path, rotation: Rotation, header: Callable[[], bytes]) -> None:
        self.path = path
        self._rotation = rotation
        self._header = header
        self._fd = -1
        self._size = 0
        self._size_kept = 0
        self._rotates = True
        self._counts_names = True
        self._reopen_due = False
        self._head = b""
        self._at_line_start = True
        self.rotations = 0

    @property
    def at_line_start(self) -> bool:
        return self._at_line_start or bool(self._head)

    def open(self) -> None:
        """Make the file and its directory; a file of an earlier start is moved out of the way.

        Raises OSError, NotRegular where a link or the like is in its place.
        """
        if self._rotation.start:
            set_aside(self.path, self._rotation.start)
        self._open()
        if self._rotates and self._size and not self._rotation.continues:
            self._rotate()
        self._begin()

    def write(self, data: bytes) -> int:
        """Append; returns how many bytes were written before the disk refused the next.

        Raises OSError only when nothing at all was written.
        """
        self._replace_what_is_gone()
        self._finish_head()
        if not self._due() or (cut := self._line_end(data)) is None:
            return self._append(data)
        written = self._append(data[:cut])
        if written < cut:
            return written
        try:
            self._start_new_file()
            return written + self._append(data[cut:])
        except OSError:
            if written:
                return written
            raise

    def reopen(self) -> None:
        """Go on in a new file of the same name when the next line starts (logrotate's SIGHUP)."""
        self._reopen_due = True
        if self._fd >= 0 and self.at_line_start:
            self._start_new_file()

    def close(self) -> None:
        if self._fd >= 0:
            closing, self._fd = self._fd, -1
            close_quietly(closing)

    def _open(self) -> None:
        self.close()
        make_directories(self.path.parent)
        self._at_line_start = True
        self._head = b""
        self._reopen_due = False
        self._size_kept = 0
        self._fd, is_new = open_to_write(self.path, os.O_APPEND, LOG_MODE)
        try:
            found = os.fstat(self._fd)
        except OSError:
            self.close()  # what it is remains unknown: it is opened again at the next write
            raise
        self._rotates = stat.S_ISREG(found.st_mode)
        self._size = found.st_size
        self._counts_names = found.st_nlink > 0
        if not is_new:
            self._refuse_planted(found)
        os.set_blocking(self._fd, True)

    def _refuse_planted(self, found: os.stat_result) -> None:
        """Another user may have planted it, to read or redirect our log."""
        if self._rotates and (found.st_uid != os.geteuid() or found.st_nlink > 1):
            self.close()
            self._make_way()
            self._open()
        elif not self._rotates and found.st_uid not in {os.geteuid(), 0}:
            self.close()
            raise PermissionError(errno.EPERM, "another user has put it there", str(self.path))

    def _due(self) -> bool:
        size = self._size - self._size_kept
        return self._reopen_due or (self._rotates and size >= self._rotation.max_bytes)

    def _line_end(self, data: bytes) -> int | None:
        """Where ``data`` may be cut without cutting a line; None if nowhere."""
        if self.at_line_start:
            return 0
        end = data.find(b"\n") + 1
        if end:
            return end
        most = self._size_kept + self._rotation.max_bytes + UNCUT_BYTES
        return 0 if self._size >= most else None

    def _start_new_file(self) -> None:
        if self._reopen_due:
            self._open()
        else:
            self._rotate()
        if not self._size:
            self._begin()

    def _begin(self) -> None:
        """Write the first line; on a full disk the rest of it is written before anything else."""
        self._head = self._header()
        self._finish_head()

    def _finish_head(self) -> None:
        while self._head:
            self._head = self._head[self._append(self._head) :]

    def _rotate(self) -> None:
        """Begin a new file, or continue in this one if it cannot be renamed."""
        try:
            self._make_way()
        except OSError:  # another user's file has the name that the old one would get
            self._size_kept = self._size
            return
        self.rotations += 1
        self._open()

    def _make_way(self) -> None:
        free = (number for number in count(1) if not os.path.lexists(self._numbered(number)))
        for number in range(min(self._rotation.keep, next(free)), 0, -1):
            older = self._numbered(number)
            newer = self._numbered(number - 1) if number > 1 else self.path
            with suppress(FileNotFoundError):
                move_to(newer, older)
        if self._rotation.keep == 0:
            refuse_to_replace(self.path)
            self.path.unlink(missing_ok=True)

    def _numbered(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")

    def _replace_what_is_gone(self) -> None:
        """If the file or its directory was removed, begin a new file."""
        if self._fd < 0 or self._is_gone():
            self._open()
            if not self._size:
                self._begin()

    def _is_gone(self) -> bool:
        """Also if its file server does not know it any more; some file systems count no names."""
        try:
            names = os.fstat(self._fd).st_nlink
        except OSError:
            return True
        return names == 0 and (self._counts_names or not os.path.lexists(self.path))

    def _append(self, data: bytes) -> int:
        """Write all of ``data``, or stop at an error after a short write."""
        done = 0
        view = memoryview(data)
        while done < len(data):
            try:
                step = os.write(self._fd, view[done:])
            except OSError:
                if done:
                    break
                raise
            done += step
            self._size += step
        if done:
            self._at_line_start = data[done - 1] == ord("\n")
        return done
