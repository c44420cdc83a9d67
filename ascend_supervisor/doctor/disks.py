"""Whether the job may write where it must, and whether there is room.

A full disk stops no rank of ours, but what the rank writes is lost.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path, PurePath

from ascend_supervisor.doctor.check import ThisServer, fit, unfit, unknown, warning
from ascend_supervisor.events.server import Result
from ascend_supervisor.files.directories import can_be_made
from ascend_supervisor.files.regular_file import kind_of, reason_of
from ascend_supervisor.untrusted_text import plain

LEAST_BYTES = 64 * 1024 * 1024
LEAST_FILES = 200
"""Below these a job of a few ranks fills what is left within hours, if not within seconds."""


def room_on_disks(server: ThisServer) -> Iterator[Result]:
    """A row for each directory; what is short on one file system is told once."""
    told: set[int] = set()
    for subject, directory in _directories(server).items():
        try:
            yield _row(subject, directory, told)
        except OSError as error:
            yield unknown(
                subject, f"{plain(str(directory))} cannot be looked at: {reason_of(error)}"
            )


def _directories(server: ThisServer) -> dict[str, PurePath]:
    return {"log directory": server.log_dir, "work directory": server.work_dir}


def _row(subject: str, directory: PurePath, told: set[int]) -> Result:
    place = _nearest(directory)
    space, device = os.statvfs(place), os.stat(place).st_dev  # noqa: PTH116  (a PurePath)
    name = plain(str(directory))
    free = space.f_bavail * space.f_frsize
    found = f"{_mebibytes(free)} free for {name}"
    if free < LEAST_BYTES and device not in told:
        told.add(device)
        expected = f"at least {_mebibytes(LEAST_BYTES)}"
        return warning(subject, found, expected, "remove old logs, or name another directory")
    if space.f_files and space.f_favail < LEAST_FILES and device not in told:
        told.add(device)
        found = f"room for {space.f_favail} more files (inodes) for {name}"
        return warning(subject, found, f"at least {LEAST_FILES}", "remove files there")
    return fit(subject, found)


def _nearest(directory: PurePath) -> PurePath:
    """It, or what is there of the way to it."""
    above = (place for place in (directory, *directory.parents) if os.path.exists(place))  # noqa: PTH110
    return next(above, directory)


def _mebibytes(size: int) -> str:
    return f"{size / (1 << 20):.0f} MiB"


PLOGS = "logs of CANN"
MOST_DIRECTORIES = 2000
MOST_FILES = 50_000
KINDS = ("debug", "run", "security", "operation")


def old_plogs(server: ThisServer) -> Iterator[Result]:
    """CANN's own logs, which nothing bounds: those of earlier processes may fill the disk.

    Warns where they take more than their file system has left; nothing where there are none.
    """
    for root in server.plogs:
        place = Path(root)
        size = sum(_sizes(place))
        if not size:
            continue
        free = os.statvfs(place).f_bavail * os.statvfs(place).f_frsize
        found = f"{size >> 20} MiB in {plain(str(place))}, {free >> 20} MiB left beside them"
        if size > free:
            yield warning(
                PLOGS,
                found,
                "more room than they take",
                "remove those of earlier jobs, or let --plog-keep remove those of earlier "
                "generations",
            )
        else:
            yield fit(PLOGS, found)


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


def access(server: ThisServer) -> Iterator[Result]:
    """A start refuses it by itself, so only who asks is told here.

    The work directory is not asked for: what is below it may be writable alone.
    """
    places = dict.fromkeys((server.log_dir, server.state_file.parent))
    for directory in places:
        name = plain(str(directory))
        if can_be_made(Path(directory)):
            yield fit("access", f"{name} can be written")
        else:
            yield unfit(
                "access",
                f"that user {os.geteuid()} can neither write to {name} nor make it",
                "a directory for logs and the state file",
                "make it writable, or name another one with --log-dir and --state-file",
            )


TERMINATION = "termination log"


def termination_file(server: ThisServer) -> Iterator[Result]:
    """It tells kubelet why the container ended. Nothing where there is none; raises OSError."""
    named = server.termination_log
    path = Path(named) if named is not None else server.roots.dev / "termination-log"
    if not os.path.lexists(path):
        if named is not None and not can_be_made(path.parent):
            yield _cannot(f"that user {os.geteuid()} cannot make {plain(str(path))}")
        return
    mode = path.lstat().st_mode
    if not stat.S_ISREG(mode):
        yield _cannot(f"that {plain(str(path))} is {kind_of(mode)}")
    elif not os.access(path, os.W_OK):
        yield _cannot(f"that user {os.geteuid()} cannot write {plain(str(path))}")
    else:
        yield fit(TERMINATION, f"{plain(str(path))} can be written")


def _cannot(found: str) -> Result:
    remedy = "make it writable, or name another file with --termination-log"
    return warning(
        TERMINATION, found, "a file that can be written, for the cause of a failure", remedy
    )
