"""CANN's own logs of processes (plog): where they are, and how they end; a bad disk may block."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from heapq import nlargest
from itertools import islice
from pathlib import Path

from msgspec import Struct

from ascend_supervisor.files.regular_file import end_of, opened

END_BYTES = 256 * 1024
"""How much of the end of a log is read. CANN begins a new one after 20 MB."""
MOST_LOGS = 4
MOST_ENTRIES = 200_000
"""How many entries of a directory are looked at."""
_FOLDERS = ("debug/plog", "run/plog", "plog")
"""Errors are in the first. The last is that of CANN 5.0 and before."""
_NAME = re.compile(r"plog-(\d{1,10})_(\d{1,20})\.log", re.ASCII)


class Plogs(Struct, frozen=True):
    """The logs to read: below ``root``, of these ``pids`` (None: of any process).

    Logs to which nothing was written after ``since`` (Unix time, seconds) are those of an earlier
    process.
    """

    root: Path
    pids: frozenset[int] | None
    since: float


def log_root(environ: Mapping[str, str], cwd: Path) -> Path | None:
    """Where CANN writes its logs: named by variables, else below the home directory.

    From its documentation: ASCEND_PROCESS_LOG_PATH comes before ASCEND_WORK_PATH, that before
    $HOME/ascend/log. A relative path begins in the directory where the process starts.
    """
    if named := environ.get("ASCEND_PROCESS_LOG_PATH"):
        return cwd / named
    if named := environ.get("ASCEND_WORK_PATH"):
        return cwd / named / "log"
    home = environ.get("HOME")
    return cwd / home / "ascend" / "log" if home else None


def last_lines(plogs: Plogs) -> tuple[str, ...]:
    """The last lines of the newest logs; nothing of what is missing or no regular file."""
    found: list[bytes] = []
    for folder in _FOLDERS:
        with suppress(OSError):
            newest = _newest(plogs.root / folder, plogs.pids)
            found += filter(None, (_end(path, plogs.since) for path in newest))
    ends = found[:MOST_LOGS]
    return tuple(line for end in ends for line in end.decode(errors="replace").splitlines())


def _newest(directory: Path, pids: frozenset[int] | None) -> list[Path]:
    """By the time stamp in the name: ``plog-PID_TIMESTAMP.log``. Raises OSError."""
    with os.scandir(directory) as entries:
        logs = nlargest(MOST_LOGS, _named(islice(entries, MOST_ENTRIES), pids))
    return [directory / name for _, name in logs]


def _named(
    entries: Iterator[os.DirEntry[str]], pids: frozenset[int] | None
) -> Iterator[tuple[int, str]]:
    for entry in entries:
        name = _NAME.fullmatch(entry.name)
        if name and (pids is None or int(name[1]) in pids):
            yield int(name[2]), entry.name


def _end(path: Path, since: float) -> bytes:
    with suppress(OSError), opened(path) as file:
        if os.fstat(file).st_mtime >= since:
            return end_of(file, END_BYTES)
    return b""
