"""Write a file so that whoever reads it sees all of the old or all of the new."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from ascend_supervisor.plumbing.directories import make_directories


def write_atomically(path: Path, data: bytes, mode: int) -> None:
    """Replace ``path``, making its directory; raises OSError, and leaves nothing half-written."""
    make_directories(path.parent)
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
