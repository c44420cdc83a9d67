"""CANN's own logs (plog), which nothing bounds: those of earlier processes may fill the disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from ascend_supervisor.doctor.check import ThisServer, fit, warning
from ascend_supervisor.events.server import Result
from ascend_supervisor.untrusted_text import plain

SUBJECT = "logs of CANN"
MOST_DIRECTORIES = 2000
MOST_FILES = 50_000
KINDS = ("debug", "run", "security", "operation")


def old_plogs(server: ThisServer) -> Iterator[Result]:
    """Warns where they take more than their file system has left; nothing where there are none."""
    for root in server.plogs:
        place = Path(root)
        size = sum(_sizes(place))
        if not size:
            continue
        free = os.statvfs(place).f_bavail * os.statvfs(place).f_frsize
        found = f"{size >> 20} MiB in {plain(str(place))}, {free >> 20} MiB left beside them"
        if size > free:
            yield warning(
                SUBJECT,
                found,
                "more room than they take",
                "remove those of earlier jobs, or let --plog-keep remove those of earlier "
                "generations",
            )
        else:
            yield fit(SUBJECT, found)


def _sizes(root: Path) -> Iterator[int]:
    """Of the first MOST_FILES files in directories of CANN below ``root``, which may be ranks'."""
    patterns = (f"{above}{kind}/*" for kind in KINDS for above in ("", "*/"))
    folders = (folder for pattern in patterns for folder in _matching(root, pattern))
    files = (file for folder in islice(folders, MOST_DIRECTORIES) for file in _in(folder))
    yield from islice(files, MOST_FILES)


def _matching(root: Path, pattern: str) -> Iterator[Path]:
    with suppress(OSError):  # it is another user's
        yield from root.glob(pattern)


def _in(folder: Path) -> Iterator[int]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                yield entry.stat(follow_symlinks=False).st_size
