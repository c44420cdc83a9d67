"""The logs that launchers write of their workers: msrun, torchrun, mpirun; the newest ones.

No event names them all, so they are looked up below the directory that a launcher is given.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ascend_supervisor.collection.collector import Collector
from ascend_supervisor.collection.disks import FileEntry
from ascend_supervisor.files.regular_file import reason_of

LAUNCHERS = ("msrun", "torchrun", "mpirun")
MOST_FILES = 500
"""Of 64 workers that is more than the last three generations."""
MOST_DIRECTORIES = 2000
SUFFIXES = frozenset({".log", ".json", ".txt", ".err", ".out"})
"""``worker_0.log`` and ``scheduler.log`` of msrun, ``error.json`` of torchrun."""


def worker_logs(
    collector: Collector, directories: Iterable[Path], job_id: str, since: float
) -> list[Path]:
    """The files below the ``directories`` of a job's logs that were written after ``since``."""
    answering = [one for one in dict.fromkeys(directories) if _answers(collector, one)]
    places = [one / job_id / name for one in answering for name in LAUNCHERS]
    found: list[FileEntry] = []
    looked = 0
    while places and looked < MOST_DIRECTORIES:
        place = places.pop(0)
        looked += 1
        try:
            found += collector.disks.files_in(place)
            places += collector.disks.directories_in(place)
        except FileNotFoundError:
            continue
        except OSError as error:
            collector.leave_out(str(place), reason_of(error))
    wanted = [one for one in found if one.mtime >= since and one.path.suffix in SUFFIXES]
    wanted.sort(key=_newest_first)
    if len(wanted) > MOST_FILES or places:
        collector.leave_out("older logs of the launcher's workers", f"{MOST_FILES} are enough")
    return [one.path for one in wanted[:MOST_FILES]]


def _answers(collector: Collector, directory: Path) -> bool:
    """Where it does not, nothing below it is asked: each place would cost its time."""
    try:
        collector.disks.ask(directory, directory.stat)
    except FileNotFoundError:
        return False
    except OSError as error:
        collector.leave_out(f"logs of a launcher's workers below {directory}", reason_of(error))
        return False
    return True


def _newest_first(file: FileEntry) -> tuple[float, str]:
    return -file.mtime, str(file.path)
