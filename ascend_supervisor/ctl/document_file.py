"""The file that an operator names for an answer (-o): all of it is written, or nothing."""

from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path

from ascend_supervisor.errors import CannotWrite
from ascend_supervisor.files.regular_file import write_atomically
from ascend_supervisor.untrusted_text import plain

MODE = 0o644


def replace_document(path: Path, document: bytes) -> None:
    """Write all of ``document`` to ``path``, or nothing; raises CannotWrite.

    A link stays, and its target is replaced. Anything that is not a file stays as it is.
    """
    try:
        write_atomically(target_of(path), document, MODE)
    except OSError as error:
        reason = error.strerror or str(error)
        raise CannotWrite(f"{plain(str(path))} cannot be written: {reason}") from error


def target_of(path: Path) -> Path:
    """The file that an operator means by ``path``; raises OSError if it must not be replaced."""
    if path.is_symlink() and path.parent.resolve().parts[:2] in (("/", "dev"), ("/", "proc")):
        raise OSError(errno.EINVAL, "it is an open file; for stdout use -o -")
    with suppress(FileNotFoundError):  # the file that is to be made
        path.stat()  # raises for a link to itself; resolve no longer does
    return path.resolve()
