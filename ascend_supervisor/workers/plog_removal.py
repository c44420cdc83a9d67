"""Removes CANN's own logs of processes (plog) that have ended; may block.

CANN names a log by the pid of its writer and opens it for each write, so nothing else shows whose
it is. What is in doubt stays: so does what another container may see, as the mounts tell.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath

from msgspec import Struct

from ascend_supervisor.files.regular_file import close_quietly, read_regular_file
from ascend_supervisor.job_files import PLOG_FOLDER, PLOG_KINDS, PLOG_NAME

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class LogTree(Struct, frozen=True):
    """The directory ``top`` / ``place``, with logs of CANN; nothing of ``place`` may be a link.

    ``is_of_job``: the first part of ``place`` is a name that no other job has.
    """

    top: Path
    place: PurePath
    is_of_job: bool

    @property
    def path(self) -> Path:
        return self.top / self.place

    @property
    def is_ours_alone(self) -> bool:
        """Whether no process of another container can write there, with whatever pid; may block.

        What is mounted in the directory of the job may be the same for another one.
        """
        try:
            top, mounted = Path(os.path.realpath(self.top)), mounts()
            if self.is_of_job:
                return not is_mounted_within(top / self.place.parts[0], mounted)
            return is_own_file_system(top / self.place, mounted)
        except OSError:
            return False


class Writers(Struct, frozen=True):
    """Processes with these ``pids``, which logged in ``tree``, and have ended.

    They lived between ``began`` and ``ended`` (Unix time, seconds).
    """

    tree: LogTree
    pids: frozenset[int]
    began: float
    ended: float


class Removed(Struct, frozen=True):
    """``is_all``: there was time for everything."""

    files: int = 0
    bytes: int = 0
    is_all: bool = True


class _Log(Struct, frozen=True):
    folder: tuple[str, ...]
    name: str
    pid: int
    found: os.stat_result

    @property
    def written(self) -> float:
        return self.found.st_mtime

    def is_as_found(self, now: os.stat_result) -> bool:
        seen = self.found
        return (now.st_ino, now.st_mtime_ns) == (seen.st_ino, seen.st_mtime_ns)


class _NoTime(Exception):
    """There is none left."""


def remove_plogs(all_writers: Sequence[Writers], seconds: float) -> Removed:
    """Remove the logs of all these, as long as no more than so many seconds have passed.

    A log is a regular file of ours with a name that CANN gives, and was written last while its
    writer lived. If a process has that pid now, or one has written a log since, all of the pid
    stays. So does all of a tree that cannot be read throughout, or that others may write to.
    """
    until = time.monotonic() + seconds
    files = size = 0
    try:
        for writers in all_writers:
            with suppress(OSError):
                for log in _logs_of(writers, until):
                    _check(until)
                    if _remove(writers, log):
                        files += 1
                        size += log.found.st_size
    except _NoTime:
        return Removed(files, size, is_all=False)
    return Removed(files, size)


def _check(until: float) -> None:
    if time.monotonic() > until:
        raise _NoTime


def _logs_of(writers: Writers, until: float) -> list[_Log]:
    if not writers.tree.is_ours_alone:
        return []
    found = [
        log
        for kind in ((), *((name,) for name in PLOG_KINDS))
        for folder in _folders(writers, kind)
        for log in _logs_in(writers, folder, until)
    ]
    later = {log.pid for log in found if log.written > writers.ended}
    busy = later | {pid for pid in writers.pids if os.path.exists(f"/proc/{pid}")}  # noqa: PTH110
    return [log for log in found if log.pid not in busy and log.written >= writers.began]


def _folders(writers: Writers, kind: tuple[str, ...]) -> list[tuple[str, ...]]:
    with (
        suppress(FileNotFoundError),
        _directory(writers, kind) as directory,
        os.scandir(directory) as entries,
    ):
        return [(*kind, entry.name) for entry in entries if PLOG_FOLDER.fullmatch(entry.name)]
    return []


def _logs_in(writers: Writers, folder: tuple[str, ...], until: float) -> Iterator[_Log]:
    with _directory(writers, folder) as directory, os.scandir(directory) as entries:
        for entry in entries:
            _check(until)
            name = PLOG_NAME.fullmatch(entry.name)
            if name and int(name[1]) in writers.pids:
                with suppress(FileNotFoundError):
                    found = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid():
                        yield _Log(folder, entry.name, int(name[1]), found)


def _remove(writers: Writers, log: _Log) -> bool:
    """Whether it was there as before, and is removed now."""
    with suppress(OSError), _directory(writers, log.folder) as directory:
        if log.is_as_found(os.stat(log.name, dir_fd=directory, follow_symlinks=False)):
            os.unlink(log.name, dir_fd=directory)
            return True
    return False


@contextmanager
def _directory(writers: Writers, folder: tuple[str, ...]) -> Iterator[int]:
    """A descriptor of a folder in its tree; raises OSError, also if a link leads there."""
    directory = os.open(writers.tree.top, _DIRECTORY)
    try:
        for name in (*writers.tree.place.parts, *folder):
            below = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
            close_quietly(directory)
            directory = below
        yield directory
    finally:
        close_quietly(directory)


MOST_BYTES = 16 * 1024 * 1024
MACHINES_NAMESPACE = 0xEFFFFFFC
"""The inode of the PID namespace that the machine starts with (PROC_PID_INIT_INO of Linux)."""
_ESCAPED = re.compile(r"\\([0-7]{3})")


class Mount(Struct, frozen=True):
    """A file system of this ``kind``, such as ext4, at this ``point``."""

    point: PurePath
    kind: str


def mounts() -> tuple[Mount, ...]:
    """Those that this process sees, the last one of a point on top. Raises OSError."""
    text = os.fsdecode(read_regular_file("/proc/self/mountinfo", MOST_BYTES))
    return tuple(map(_mount, text.splitlines()))


def _mount(line: str) -> Mount:
    """proc_pid_mountinfo(5): the fifth field, and the first one after the separator."""
    before, _, after = line.partition(" - ")
    point = _ESCAPED.sub(lambda found: chr(int(found[1], 8)), before.split(" ")[4])
    return Mount(PurePath(point), after.split(" ")[0])


def is_mounted_within(place: PurePath, mounted: Sequence[Mount]) -> bool:
    """Whether anything is mounted at ``place``, which has no links, or below."""
    return any(one.point.is_relative_to(place) for one in mounted)


def is_own_file_system(place: PurePath, mounted: Sequence[Mount]) -> bool:
    """Whether ``place`` is on the root of a container with PIDs of its own: only it writes there.

    That is an overlay which no other container gets. Raises OSError.
    """
    if is_mounted_within(place, mounted):
        return False
    holding = max(
        (one for one in reversed(mounted) if place.is_relative_to(one.point)),
        key=lambda one: len(one.point.parts),
        default=None,
    )
    if holding is None or holding.point != PurePath("/") or holding.kind != "overlay":
        return False
    return Path("/proc/self/ns/pid").stat().st_ino != MACHINES_NAMESPACE
