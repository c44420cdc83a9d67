"""A digest of the files below a directory, the same wherever the directory is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from stat import S_ISLNK, S_ISREG

LEFT_OUT = frozenset({".git", "__pycache__"})
MOST_FILES = 100_000
MOST_BYTES = 16 * 1024**3
_PIECE = 1024 * 1024


class TooMuch(Exception):
    """There is more below it than is read; the text is a clause."""


def directory_digest(
    directory: Path, most_files: int = MOST_FILES, most_bytes: int = MOST_BYTES
) -> str:
    """Of the names, sizes and content of its regular files, and of where symlinks lead; it blocks.

    What is in LEFT_OUT does not count. Raises OSError, and TooMuch.
    """
    names = []
    for name in _files(os.fspath(directory), ""):
        names.append(name)
        if len(names) > most_files:
            raise TooMuch(f"it has more than {most_files:,} files")
    told, left = sha256(), most_bytes
    for name in sorted(names):
        path = directory / name
        found = path.lstat()
        told.update(b"\0%s\0%d\0" % (os.fsencode(name), found.st_size))
        if S_ISLNK(found.st_mode):
            told.update(os.fsencode(path.readlink()))
        elif S_ISREG(found.st_mode):
            left -= found.st_size
            if left < 0:
                raise TooMuch(f"it has more than {most_bytes / 1024**3:.3g} GiB")
            told.update(_digest(path))
    return told.hexdigest()


def _files(directory: str, below: str) -> Iterator[str]:
    """Names relative to the first directory."""
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in LEFT_OUT:
                    yield from _files(entry.path, f"{below}{entry.name}/")
            else:
                yield below + entry.name


def _digest(path: Path) -> bytes:
    """A file that grows meanwhile is read to its end."""
    told = sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            told.update(piece)
    return told.digest()
