"""CANN's own logs of processes (plog), the newest first.

Their directories are merged as ascend-fd wants them: ``process_log/debug/plog/plog-PID_TIME.log``
and ``process_log/run/device-ID/device-PID_TIME.log``, whatever rank they are of. The names hold the
pid; the manifest has the places.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from msgspec import Struct

from ascend_supervisor.collection.archive import NO_ROOM, Collector, member_name
from ascend_supervisor.collection.disks import FileEntry
from ascend_supervisor.files.regular_file import reason_of
from ascend_supervisor.job_files import PLOG_FOLDER, PLOG_KINDS, PLOG_NAME

PROCESS_LOG = "process_log"
MOST_FILES = 20_000


class PlogRoot(Struct, frozen=True):
    """Where CANN writes; files that were last written before ``since`` are of other jobs."""

    path: Path
    since: float = 0.0


class Plog(Struct, frozen=True):
    """A file, and the parts of its name in the archive."""

    file: FileEntry
    parts: tuple[str, ...]


def find_plogs(collector: Collector, roots: Sequence[PlogRoot]) -> list[Plog]:
    """The files below ``roots``, the newest first; what cannot be read is noted."""
    found = {plog.file.path: plog for root in roots for plog in _plogs_below(collector, root)}
    if not found:
        places = ", ".join(str(root.path) for root in roots) or "any known place"
        collector.leave_out("the logs of CANN", f"there are none in {places}")
    return sorted(found.values(), key=_newest_first)


def add_plogs(collector: Collector, newest: Sequence[Plog]) -> None:
    """Take the files as long as there is room."""
    number = size = 0
    for plog in newest[:MOST_FILES]:
        if collector.room:
            collector.add_file(member_name(PROCESS_LOG, *plog.parts), plog.file.path)
        else:
            number, size = number + 1, size + plog.file.size
    if number:
        collector.leave_out(f"{number} older logs of CANN with {size} bytes", NO_ROOM)
    if len(newest) > MOST_FILES:
        collector.leave_out(
            f"{len(newest) - MOST_FILES} older logs of CANN", f"{MOST_FILES} files are enough"
        )


def _plogs_below(collector: Collector, root: PlogRoot) -> Iterator[Plog]:
    for kind in (*PLOG_KINDS, ""):
        for folder in _directories(collector, root.path / kind if kind else root.path):
            if PLOG_FOLDER.fullmatch(folder.name):
                yield from _plogs_in(collector, folder, kind, root.since)


def _plogs_in(collector: Collector, folder: Path, kind: str, since: float) -> Iterator[Plog]:
    try:
        files = collector.disks.files_in(folder)
    except OSError as error:
        collector.leave_out(str(folder), reason_of(error))
        return
    for file in files:
        if PLOG_NAME.fullmatch(file.path.name) and file.mtime >= since:
            yield Plog(file, tuple(filter(None, (kind, folder.name, file.path.name))))


def _directories(collector: Collector, place: Path) -> list[Path]:
    """The directories in it; why not is noted, unless there is no such place."""
    try:
        return collector.disks.directories_in(place)
    except FileNotFoundError:
        return []
    except OSError as error:
        collector.leave_out(str(place), reason_of(error))
        return []


def job_roots(collector: Collector, directories: Iterable[Path], job_id: str) -> list[PlogRoot]:
    """Where a supervisor tells CANN to write, below the directories of its logs."""
    usual = (one / job_id / "ascend" / "process_log" for one in dict.fromkeys(directories))
    return [PlogRoot(root) for one in islice(usual, 100) for root in _directories(collector, one)]


def _newest_first(plog: Plog) -> tuple[float, str]:
    return -plog.file.mtime, plog.file.path.name
