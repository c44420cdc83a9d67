"""Directories of ours, also where everybody may write: nobody's trap, and nobody's to look into."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from pathlib import Path

DIRECTORY_MODE = 0o750


def make_directories(path: Path) -> None:
    """Make ``path`` and what is missing above it, each with DIRECTORY_MODE; raises OSError.

    What others have put for us into a directory that everybody may write is refused.
    """
    for directory in (*reversed(path.parents), path):
        try:
            directory.mkdir(mode=DIRECTORY_MODE)
        except FileExistsError:
            _refuse_planted(directory)
        except OSError:  # read-only, or automounted: what is there need not be made
            if not directory.is_dir():
                raise
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))


def can_be_made(path: Path) -> bool:
    """Whether ``path`` is a directory in which we may make others, or may become one. May block."""
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
    """Who we are on this file system: a server may know root by another name (root_squash)."""
    with tempfile.TemporaryFile(dir=directory) as file:
        return os.fstat(file.fileno()).st_uid
