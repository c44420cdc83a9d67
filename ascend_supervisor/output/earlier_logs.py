"""Sets aside the logs of earlier starts, so that rotation deletes none of them.

Everything here may block on the disk: it belongs in a writer's thread.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ascend_supervisor.files.regular_file import opened, read_up_to

OURS = "[ascend_supervisor]"
"""The beginning of every line of ours in a rank's log."""
HEAD_BYTES = 2048
"""The first line of a log of ours is shorter."""
SAME_NAMES = 100
_LABEL = re.compile(rb", start (s[0-9]{1,9}|p[0-9]{1,9}|s[0-9]{1,9}-p[0-9]{1,9})\n", re.ASCII)

_SUFFIX = r"\.(?:before-)?(?:s[0-9]{1,9}|p[0-9]{1,9}|s[0-9]{1,9}-p[0-9]{1,9})(?:-[0-9]{1,2})?"


def start_words(label: str) -> str:
    """How the first line of a log ends that belongs to the start with this label."""
    return f", start {label}" if label else ""


def set_aside(path: Path, label: str) -> None:
    """Rename the log at ``path`` and what was rotated from it, except the files of this start.

    Of the start s1-p1, ``rank.txt.2`` becomes ``rank.txt.s1-p1.2``. A file whose first line names
    no start becomes ``rank.txt.before-s1-p2.2``, where ``label`` is s1-p2. No file is overwritten;
    one that cannot be renamed stays.
    """
    for number in _numbers(path):
        file = path.with_name(path.name + number)
        with suppress(OSError):
            found = file.lstat()
            if stat.S_ISREG(found.st_mode) and found.st_size:
                _rename(file, path, _label_of(file), label, number)


def files_set_aside(path: Path) -> list[Path]:
    """The files of earlier starts that ``set_aside`` has renamed, by the time of their last write.

    A file that is removed meanwhile is left out.
    """
    name = re.compile(re.escape(path.name) + _SUFFIX + r"(?:\.[0-9]{1,9})?", re.ASCII)
    found: list[tuple[int, Path]] = []
    with suppress(OSError):
        for entry in path.parent.iterdir():
            if name.fullmatch(entry.name):
                with suppress(OSError):
                    found.append((entry.lstat().st_mtime_ns, entry))
    return [file for _, file in sorted(found)]


def _rename(file: Path, path: Path, told: str, label: str, number: str) -> None:
    if told == label:
        return
    for free in _candidates(f"{path.name}.{told or f'before-{label}'}", number):
        if not os.path.lexists(path.with_name(free)):
            file.rename(path.with_name(free))
            return


def _candidates(name: str, number: str) -> Iterator[str]:
    yield f"{name}{number}"
    for again in range(2, SAME_NAMES):
        yield f"{name}-{again}{number}"


def _numbers(path: Path) -> list[str]:
    """What follows the name of the log in the names of its files: nothing, .1, .2, ..."""
    rotated = re.compile(re.escape(path.name) + r"(\.[0-9]{1,9})?", re.ASCII)
    found: list[str] = []
    with suppress(OSError):
        matches = map(rotated.fullmatch, os.listdir(path.parent))  # noqa: PTH208  (names only)
        found = [match[1] or "" for match in matches if match]
    return found


def _label_of(file: Path) -> str:
    """The start that the file's first line names; empty if it names none. Raises OSError."""
    with opened(file) as descriptor:
        first = read_up_to(descriptor, HEAD_BYTES).partition(b"\n")
    found = _LABEL.search(first[0] + first[1])
    return found[1].decode() if found else ""
