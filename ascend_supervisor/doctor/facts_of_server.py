"""What must be the same on all servers of a job: versions, and the files of its command."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from stat import S_ISLNK, S_ISREG
from typing import NamedTuple

from ascend_supervisor import __version__
from ascend_supervisor.doctor.cann import ASKED, WORDS, installed
from ascend_supervisor.doctor.check import Ask, ThisServer, found_program
from ascend_supervisor.files.regular_file import reason_of
from ascend_supervisor.tasks.threads import aside
from ascend_supervisor.untrusted_text import printable

ASKED_OF_PYTHON = f"""
import platform
print("found", "Python", platform.python_version(), "", sep="\\t")
{ASKED}"""
CODE = "the code (--code-digest)"
MOST_CHARACTERS = 80


class FactsFound(NamedTuple):
    """``told`` by name; what is not installed here has none. ``no_digest``: why there is none."""

    told: dict[str, str]
    no_digest: str = ""


async def facts_of_server(server: ThisServer, ask: Ask, code: Path | None) -> FactsFound:
    """Takes as long as the files of ``code`` do."""
    facts = {"ascend-supervisor": __version__}
    facts |= await aside(partial(_installed, server))
    program = None
    if server.python is not None:
        program = await found_program(server.environ, server.python)
    if program is not None:
        said = await ask((program, "-c", ASKED_OF_PYTHON))
        lines = (line.split("\t") for line in said.text.decode(errors="replace").splitlines())
        told = (words for words in lines if words[0] == "found" and len(words) == WORDS)
        facts |= {name: printable(version, MOST_CHARACTERS) for _, name, version, _ in told}
    if code is None:
        return FactsFound(facts)
    digest, why = await aside(partial(_digest, code))
    return FactsFound({**facts, CODE: digest or why}, why)


def _installed(server: ThisServer) -> dict[str, str]:
    versions = installed(server).versions
    return {name: printable(text, MOST_CHARACTERS) for name, text in versions.items()}


def _digest(code: Path) -> tuple[str, str]:
    """Or why there is none: one of the two is empty."""
    try:
        return directory_digest(code)[:16], ""
    except TooMuch as reason:
        return "", f"no digest: {reason}"
    except OSError as error:
        return "", f"no digest: {reason_of(error)}"


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
            told.update(_sha256(path))
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


def _sha256(path: Path) -> bytes:
    """A file that grows meanwhile is read to its end."""
    told = sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            told.update(piece)
    return told.digest()
