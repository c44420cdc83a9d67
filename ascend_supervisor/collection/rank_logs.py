"""The logs of the ranks: of each the end first, and most of the ranks that failed.

Logs that launchers write of their workers are named by no event: they are looked up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

from ascend_supervisor.collection.archive import NO_ROOM, Collector, member_name
from ascend_supervisor.collection.disks import Disks, FileEntry
from ascend_supervisor.files.regular_file import reason_of

FOLDER = "logs"
MOST_FILES = 200
"""Of one log: all are open at once."""


def add_rank_logs(collector: Collector, logs: Sequence[Path], first: int, room: int) -> None:
    """Take at most ``room`` bytes of these logs; half of that is for the ``first`` of them."""
    sizes = sizes_of(collector.disks, logs)
    for log, share in zip(logs, shares_with_first(sizes, room, first), strict=True):
        _add_log(collector, log, share)


def sizes_of(disks: Disks, logs: Sequence[Path]) -> list[int]:
    """The bytes of each log, with its rotated files and those of earlier starts."""
    files = _by_directory(disks, {log.parent for log in logs})
    return [sum(one.size for one in _parts(log, files)) for log in logs]


def _by_directory(disks: Disks, directories: Iterable[Path]) -> list[FileEntry]:
    found: list[FileEntry] = []
    for directory in directories:
        try:
            found += disks.files_in(directory)
        except OSError:  # the log itself will say why
            continue
    return found


def _parts(log: Path, files: Iterable[FileEntry]) -> list[FileEntry]:
    """The files of this log: its own name, and what rotation and earlier starts have added."""
    return [
        one
        for one in files
        if one.path.parent == log.parent
        and (one.path.name == log.name or one.path.name.startswith(f"{log.name}."))
    ]


def _add_log(collector: Collector, log: Path, share: int) -> None:
    """The newest file first, each from its end, until the share is used up."""
    files = sorted(_parts(log, _by_directory(collector.disks, [log.parent])), key=_newest_first)
    if not files:
        collector.add_file(member_name(FOLDER, log.name), log, share)  # which says what is wrong
        return
    with ExitStack() as open_files:
        # A name means nothing after a rotation, so all are opened before the first is read.
        opened = []
        for one in files[:MOST_FILES]:
            try:
                opened.append(open_files.enter_context(collector.disks.opened(one.path)))
            except OSError as error:
                collector.leave_out(str(one.path), reason_of(error))
        for file in opened:
            if not share and file.size:
                collector.leave_out(str(file.path), NO_ROOM)
                continue
            share -= collector.add_open_file(member_name(FOLDER, file.path.name), file, share)


def _newest_first(file: FileEntry) -> tuple[float, str]:
    return -file.mtime, file.path.name


def shares(sizes: Sequence[int], room: int) -> list[int]:
    """For each log so many bytes, at most ``room`` in all.

    Nobody gets more than it needs, and what it does not need goes to those that need more: no log
    is short while another one has a larger share.
    """
    given = [0] * len(sizes)
    waiting = sorted(range(len(sizes)), key=lambda index: sizes[index])
    for place, index in enumerate(waiting):
        given[index] = min(sizes[index], room // (len(waiting) - place))
        room -= given[index]
    return given


def shares_with_first(sizes: Sequence[int], room: int, first: int) -> list[int]:
    """The same, but of the room half is for the ``first`` of them, if they need it."""
    favoured = shares(sizes[:first], room // 2 if sizes[first:] else room)
    others = shares(sizes[first:], room - sum(favoured))
    left = room - sum(favoured) - sum(others)
    return [*_raised(favoured, sizes[:first], left), *others]


def _raised(given: Sequence[int], sizes: Sequence[int], room: int) -> list[int]:
    """What others have left over goes to these."""
    needs = [size - had for size, had in zip(sizes, given, strict=True)]
    return [had + more for had, more in zip(given, shares(needs, room), strict=True)]


LAUNCHERS = ("msrun", "torchrun", "mpirun")
MOST_WORKER_LOGS = 500
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
    wanted.sort(key=lambda one: (-one.mtime, str(one.path)))
    if len(wanted) > MOST_WORKER_LOGS or places:
        collector.leave_out(
            "older logs of the launcher's workers", f"{MOST_WORKER_LOGS} are enough"
        )
    return [one.path for one in wanted[:MOST_WORKER_LOGS]]


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
