"""Write a file so that readers see all of the old content or all of the new.

What is replaced is a regular file, or nothing.
"""

from __future__ import annotations

import os
import re
import tempfile
from contextlib import suppress
from pathlib import Path

from ascend_supervisor.files.directories import make_directories
from ascend_supervisor.files.regular_file import move_to, refuse_to_replace

TRIES = 3
_RANDOM = re.compile(r"[a-z0-9_]{8}")
"""What tempfile puts at the end of a name."""


def write_atomically(path: Path, data: bytes, mode: int) -> None:
    """Replace ``path``, making its directory; raises OSError, and leaves nothing half-written.

    Raises NotRegular, which is an OSError, where something else than a regular file is. A file
    system without modes ignores ``mode``.
    """
    make_directories(path.parent)
    refuse_to_replace(path)
    for _ in range(TRIES - 1):
        with suppress(FileNotFoundError):  # another start removed our temporary file as a remnant
            _write(path, data, mode)
            return
    _write(path, data, mode)


def remove_remnants(path: Path) -> None:
    """Remove temporary files that killed writers of ``path`` left behind."""
    found: list[Path] = []
    with suppress(OSError):
        found += path.parent.iterdir()
    for other in found:
        before, _, random = other.name.rpartition(".")
        if before == f".{path.name}" and _RANDOM.fullmatch(random):
            with suppress(OSError):
                refuse_to_replace(other)
                other.unlink()


def _write(path: Path, data: bytes, mode: int) -> None:
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            with suppress(OSError):
                os.fchmod(file.fileno(), mode)
            file.write(data)
        move_to(Path(name), path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
