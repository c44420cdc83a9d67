"""A log file that grows at its end, is rotated between lines, and starts with a line of its own.

Everything here may block on the disk: it belongs in a writer's thread.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

LOG_MODE = 0o640
DIRECTORY_MODE = 0o750
FLAGS = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
UNCUT_BYTES = 16 * 1024 * 1024
"""A file that is due for rotation may grow by this much while a line will not end."""


@dataclass(frozen=True, slots=True)
class Rotation:
    """At ``max_bytes`` a file becomes ``name.1``, the one before it ``name.2``, up to ``keep``."""

    max_bytes: int
    keep: int


class LogFile:
    """One log. ``header`` gives the first line of every file (log shippers tell files by it)."""

    def __init__(self, path: Path, rotation: Rotation, header: Callable[[], bytes]) -> None:
        self.path = path
        self._rotation = rotation
        self._header = header
        self._fd = -1
        self._size = 0
        self._rotates = True
        self._reopen_due = False
        self.at_line_start = True
        self.rotations = 0

    def open(self) -> None:
        """Make the file, and its directory; what an earlier start left there is rotated away.

        Raises OSError; a symlink in the file's place is refused with ELOOP.
        """
        self._open()
        if self._rotates and self._size:
            self._rotate()
        self._write_all(self._header())

    def write(self, data: bytes) -> int:
        """Append, and give how many bytes were written before the disk refused the next.

        Raises OSError only when nothing at all was written.
        """
        self._replace_what_is_gone()
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
            os.close(self._fd)
            self._fd = -1

    def _open(self) -> None:
        self.close()
        self.path.parent.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        self.at_line_start = True
        self._reopen_due = False
        try:
            self._fd = os.open(self.path, FLAGS | os.O_CREAT | os.O_EXCL, LOG_MODE)
        except FileExistsError:
            self._open_existing()
        else:
            self._rotates, self._size = True, 0
        os.set_blocking(self._fd, True)

    def _open_existing(self) -> None:
        """Somebody else may have put it there, to read our words or to have them elsewhere."""
        self._fd = os.open(self.path, FLAGS | os.O_CREAT, LOG_MODE)
        found = os.fstat(self._fd)
        self._rotates = stat.S_ISREG(found.st_mode)
        self._size = found.st_size
        if self._rotates and (found.st_uid != os.geteuid() or found.st_nlink > 1):
            self._rotate()
        elif not self._rotates and found.st_uid not in {os.geteuid(), 0}:
            self.close()
            raise PermissionError(errno.EPERM, "another user has put it there", str(self.path))

    def _due(self) -> bool:
        return self._reopen_due or (self._rotates and self._size >= self._rotation.max_bytes)

    def _line_end(self, data: bytes) -> int | None:
        """Where ``data`` may be cut so that no line is; None where it may not."""
        if self.at_line_start:
            return 0
        end = data.find(b"\n") + 1
        if end:
            return end
        return 0 if self._size >= self._rotation.max_bytes + UNCUT_BYTES else None

    def _start_new_file(self) -> None:
        if self._reopen_due:
            self._open()
        else:
            self._rotate()
        if not self._size:
            self._write_all(self._header())

    def _rotate(self) -> None:
        for number in range(self._rotation.keep, 0, -1):
            older = self._numbered(number)
            newer = self._numbered(number - 1) if number > 1 else self.path
            with suppress(FileNotFoundError):
                newer.replace(older)
        if self._rotation.keep == 0:
            self.path.unlink(missing_ok=True)
        self.rotations += 1
        self._open()

    def _numbered(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")

    def _replace_what_is_gone(self) -> None:
        """Whoever removed the file, or its directory, did not mean our words to be lost."""
        if self._fd < 0 or os.fstat(self._fd).st_nlink == 0:
            self._open()
            self._write_all(self._header())

    def _append(self, data: bytes) -> int:
        """Write until the end or a refusal that comes after a short write."""
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
            self.at_line_start = data[done - 1] == ord("\n")
        return done

    def _write_all(self, data: bytes) -> None:
        if self._append(data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
