"""Write a file so that readers see all of the old content or all of the new."""

from __future__ import annotations

import os
import re
import tempfile
from contextlib import suppress
from pathlib import Path

from ascend_supervisor.files.directories import make_directories

TRIES = 3
_RANDOM = re.compile(r"[a-z0-9_]{8}")
"""What tempfile puts at the end of a name."""


def write_atomically(path: Path, data: bytes, mode: int) -> None:
    """Replace ``path``, making its directory; raises OSError, and leaves nothing half-written."""
    make_directories(path.parent)
    for _ in range(TRIES - 1):
        with suppress(FileNotFoundError):  # another start removed our temporary file as a remnant
            _write(path, data, mode)
            return
    _write(path, data, mode)


def remove_remnants(path: Path) -> None:
    """Remove temporary files that killed writers of ``path`` left behind."""
    with suppress(OSError):
        for found in path.parent.iterdir():
            before, _, random = found.name.rpartition(".")
            if before == f".{path.name}" and _RANDOM.fullmatch(random):
                found.unlink()


def _write(path: Path, data: bytes, mode: int) -> None:
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(data)
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
