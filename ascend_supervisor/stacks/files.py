"""Writes the files of one look into a directory of their own. It may block: call it in a thread."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from ascend_supervisor.files.directories import make_directories

DIRECTORY_MODE = 0o700
FILE_MODE = 0o600
MOST_DIRECTORIES = 1000
NAME_CHARACTERS = 60
_STRANGE = re.compile(r"[^A-Za-z0-9._-]")


class Written(Struct, frozen=True):
    """The names of the files that are complete; ``refusal`` is why not all are."""

    directory: Path
    files: tuple[str, ...] = ()
    refusal: str | None = None


def write_all(wanted: Path, texts: Iterable[tuple[str, str]]) -> Written:
    """Write ``texts``, each after its name, into ``wanted``; if that exists, ``wanted``-2, -3, ...

    An OSError is told as the refusal; a file that could be written in part only is removed.
    """
    done: list[str] = []
    try:
        directory = _made(wanted)
    except OSError as error:
        return Written(wanted, (), error.strerror or str(error))
    try:
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            for name, text in texts:
                _write(handle, name, text.encode(errors="backslashreplace"))
                done.append(name)
        finally:
            os.close(handle)
    except OSError as error:
        with suppress(OSError):
            directory.rmdir()  # only an empty one
        return Written(directory, tuple(done), error.strerror or str(error))
    return Written(directory, tuple(done))


def _made(wanted: Path) -> Path:
    """Make a directory that nobody could have planted; raises OSError."""
    make_directories(wanted.parent)
    for directory in _candidates(wanted):
        with suppress(FileExistsError):
            directory.mkdir(mode=DIRECTORY_MODE)
            return directory
    wanted.mkdir()
    return wanted


def _candidates(wanted: Path) -> Iterator[Path]:
    yield wanted
    for number in range(2, MOST_DIRECTORIES):
        yield wanted.with_name(f"{wanted.name}-{number}")


def _write(directory: int, name: str, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, FILE_MODE, dir_fd=directory)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
    except OSError:
        with suppress(OSError):
            os.unlink(name, dir_fd=directory)
        raise


def file_names(names: Sequence[str]) -> list[str]:
    """A name of a file for each, all different: ``rank 3`` becomes rank-3.txt."""
    found: list[str] = []
    for name in names:
        plain = _STRANGE.sub("-", name)[:NAME_CHARACTERS].lstrip(".-") or "process"
        file, number = f"{plain}.txt", 1
        while file in found:
            number += 1
            file = f"{plain}-{number}.txt"
        found.append(file)
    return found
