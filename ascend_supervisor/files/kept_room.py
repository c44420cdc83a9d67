"""Room on a disk for one last content of a file, kept while the disk still has some.

It is a file beside the other, with blocks of its own: what others write cannot take them.
"""

from __future__ import annotations

import errno
import os
import tempfile
from contextlib import suppress
from pathlib import Path

from ascend_supervisor.files.regular_file import close_quietly, move_to

ROOM_BYTES = 64 * 1024
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def is_full(error: OSError) -> bool:
    """Whether the disk, or the share of it that we may use, has no room."""
    return error.errno in _FULL


class KeptRoom:
    """ROOM_BYTES for ``path``, once ``keep`` has found them.

    A writer that is killed leaves a file that ``remove_remnants`` removes. No method is called from
    two threads at once.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: Path | None = None

    def keep(self) -> None:
        """Take the room if it is not kept yet; without any, the next call tries again."""
        if self._file is not None:
            return
        with suppress(OSError):
            prefix = f".{self._path.name}."
            descriptor, name = tempfile.mkstemp(prefix=prefix, dir=self._path.parent)
            self._file = Path(name)
            try:
                os.posix_fallocate(descriptor, 0, ROOM_BYTES)
            except OSError:
                self.give_up()
            finally:
                close_quietly(descriptor)

    def write(self, data: bytes, mode: int) -> None:
        """Replace the content of ``path``; the room is used up then. Raises OSError without it."""
        if self._file is None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        descriptor = os.open(self._file, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        with os.fdopen(descriptor, "wb") as file:  # truncated only afterwards: it would lose blocks
            with suppress(OSError):
                os.fchmod(file.fileno(), mode)
            file.write(data)
            file.truncate()
        move_to(self._file, self._path)
        self._file = None

    def give_up(self) -> None:
        """Leave the room to others."""
        if self._file is not None:
            with suppress(OSError):
                self._file.unlink()
            self._file = None
