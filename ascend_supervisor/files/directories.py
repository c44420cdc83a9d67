"""Our directories, even below world-writable ones: not planted by others.

They are not world-readable, unless what they hold is for everybody.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

DIRECTORY_MODE = 0o750
PUBLIC_DIRECTORY_MODE = 0o755


def make_directories(path: Path, made: set[Path] | None = None, mode: int = DIRECTORY_MODE) -> None:
    """Make ``path`` and what is missing above it, each with this ``mode``; raises OSError.

    Raises for a directory that another user planted in a world-writable one. What is in ``made``
    was made, or looked at, a moment ago, and is left out; what is made is added to it.
    """
    made = set() if made is None else made
    for directory in (*reversed(path.parents), path):
        if directory in made:
            continue
        try:
            directory.mkdir(mode=mode)
        except FileExistsError:
            _refuse_planted(directory)
        except OSError:  # read-only, or automounted: an existing directory is enough
            if not directory.is_dir():
                raise
        made.add(directory)
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))


def can_be_made(path: Path) -> bool:
    """Whether ``path`` is a directory that we may write to, or can be made. May block."""
    nearest = next(place for place in (path, *path.parents) if os.path.lexists(place))
    return os.access(f"{nearest}/.", os.W_OK | os.X_OK)


def _refuse_planted(directory: Path) -> None:
    above = directory.parent.stat()
    if not above.st_mode & stat.S_IWOTH:
        return
    owner = directory.lstat().st_uid
    if owner not in {os.geteuid(), 0, above.st_uid} and owner != _ours(directory.parent):
        raise PermissionError(
            errno.EPERM, f"user {owner} has put {directory} there", str(directory)
        )


def _ours(directory: Path) -> int:
    """Our user id on this file system: a server may map root to another user (root_squash)."""
    import tempfile  # noqa: PLC0415  (probes only read)

    with tempfile.TemporaryFile(dir=directory) as file:
        return os.fstat(file.fileno()).st_uid
