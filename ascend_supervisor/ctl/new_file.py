"""A file that is written piece by piece: it has its name when it is whole, and not before."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ascend_supervisor.ctl.document_file import target_of
from ascend_supervisor.errors import CannotWrite
from ascend_supervisor.files.regular_file import move_to, refuse_to_replace
from ascend_supervisor.untrusted_text import plain

ELSEWHERE = "give another place with -o, or write to stdout with -o -"


class NotWritten(Exception):
    """The file that is written has failed, and none that is read; the text says how."""


@contextmanager
def new_file(path: Path) -> Iterator[Callable[[bytes], None]]:
    """What is put is in the file at ``path`` afterwards, for its owner only, or nothing is.

    Raises CannotWrite. A link stays, and its target is replaced; so is a regular file. Anything
    else stays as it is.
    """
    try:
        target = target_of(path)
        refuse_to_replace(target)
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name[:200]}.", dir=target.parent)
    except OSError as error:
        raise _cannot(path, error.strerror or str(error)) from error
    try:
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            yield lambda content: _write(file.fileno(), content)
        _rename(Path(name), target)
    except BaseException as error:
        with suppress(OSError):
            Path(name).unlink()
        if isinstance(error, NotWritten):
            raise _cannot(path, str(error)) from error
        raise


def _rename(source: Path, target: Path) -> None:
    try:
        move_to(source, target)
    except OSError as error:
        raise NotWritten(error.strerror or str(error)) from error


def _write(descriptor: int, content: bytes) -> None:
    left = memoryview(content)
    try:
        while left:
            left = left[os.write(descriptor, left) :]
    except OSError as error:
        raise NotWritten(error.strerror or str(error)) from error


def _cannot(path: Path, reason: str) -> CannotWrite:
    return CannotWrite(f"{plain(str(path))} cannot be written: {reason}; {ELSEWHERE}")
