"""The open files of processes, and their pipes, as /proc shows them.

A process that is gone, or that we may not inspect, has none. If its main thread has ended, the
others show them.
"""

from __future__ import annotations

import os
import stat as stat_bits
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from math import inf
from pathlib import Path

from msgspec import Struct

from ascend_supervisor.processes import proc

MOST_DESCRIPTORS = 1024
"""How many descriptors of a process are looked at in search of pipes: some hold a million."""
STANDARD = 3
"""How many of them are stdin, stdout and stderr, which most processes have open."""
LOOK_SECONDS = 0.25
"""How long the pipes of many processes are searched for: a descriptor takes up to 30 µs."""
KEEP_SHARED_MEMORY = {"torch_shm_manager": 3.0}
"""Programs that serve processes until these have ended, and then remove their shared memory; and
how many seconds later at most. PyTorch's waits 2 s for another process to serve."""
_BOTH_WAYS = stat_bits.S_IRUSR | stat_bits.S_IWUSR


def holds_file(pid: int, paths: frozenset[str], root: Path = proc.PROC) -> bool:
    """Whether one of its open files is one of ``paths``; raises OSError at EMFILE and the like."""
    return any(path in paths for path in _open_files(pid, root))


class PipeEnds(Struct, frozen=True):
    """The pipes of a process: ``says`` at its stdout and stderr, ``writes`` elsewhere.

    Anonymous ones are like ``pipe:[4026]``; named ones are known by their paths.
    """

    reads: frozenset[str] = frozenset()
    says: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()


def holders(paths: frozenset[str]) -> tuple[str, ...]:
    """The processes that we can see and that hold one of ``paths``, for people.

    Raises OSError at EMFILE and the like.
    """
    return tuple(proc.description(pid) for pid in proc.pids() if holds_file(pid, paths))


def is_anonymous(pipe: str) -> bool:
    return pipe.startswith("pipe:[")


def standard_pipes(pid: int, root: Path = proc.PROC) -> PipeEnds:
    """Those at its stdin, stdout and stderr."""
    place = proc.in_place_of_main_thread(pid, root) or f"{root}/{pid}"
    return _pipe_ends(place, ("0", "1", "2"))


def all_pipes(pid: int, until: float = inf, root: Path = proc.PROC) -> PipeEnds:
    """All of them, among its first MOST_DESCRIPTORS descriptors; raises OSError at EMFILE.

    Empty from ``until`` on, a time of time.monotonic.
    """
    if time.monotonic() >= until:
        return PipeEnds()
    return _pipe_ends(*_first_descriptors(pid, root))


def holds_pipe(pid: int, pipes: frozenset[str], until: float = inf, root: Path = proc.PROC) -> bool:
    """Whether one of ``pipes`` is among its first MOST_DESCRIPTORS descriptors.

    From ``until`` on, a time of time.monotonic, only stdin, stdout and stderr are looked at.
    Raises OSError at EMFILE and the like.
    """
    place, numbers = _first_descriptors(pid, root)
    seen = numbers if time.monotonic() < until else numbers[:STANDARD]
    return any(path in pipes for path in _targets(place, seen))


def only_waits(number: int, until: float = inf) -> bool:
    """Whether it may only wait for the end of the others.

    It reads a pipe, and apart from its output holds none that others may read: Python's resource
    tracker reads a pipe until all ranks have closed it, and then removes what they have left in
    shared memory. To be asked before the others are killed: it closes the pipe first. From
    ``until`` on, a time of time.monotonic, only programs in KEEP_SHARED_MEMORY are recognized.
    """
    if proc.program(number) in KEEP_SHARED_MEMORY:
        return True
    ends = all_pipes(number, until)
    reads = {pipe for pipe in ends.reads if is_anonymous(pipe)}
    reads |= ends.reads & standard_pipes(number).reads
    return bool(reads) and not any(map(is_anonymous, ends.writes))


def _first_descriptors(pid: int, root: Path) -> tuple[str, list[str]]:
    """Where they are shown, and their numbers, the lowest first."""
    place = f"{root}/{pid}"
    numbers = _descriptors(place)
    if not numbers and (other := proc.in_place_of_main_thread(pid, root)):
        return other, _descriptors(other)
    return place, numbers


def _descriptors(place: str) -> list[str]:
    """Not by listdir: some processes hold a million."""
    try:
        with os.scandir(f"{place}/fd") as found:
            return [entry.name for entry in islice(found, MOST_DESCRIPTORS)]
    except OSError as error:
        proc.raise_if_scarce(error)
        return []


def _pipe_ends(place: str, numbers: Sequence[str]) -> PipeEnds:
    reads: set[str] = set()
    says: set[str] = set()
    writes: set[str] = set()
    for number in numbers:
        with suppress(OSError):
            link = f"{place}/fd/{number}"
            target = os.readlink(link)  # noqa: PTH115
            if not is_anonymous(target) and not _has_a_name(target):
                continue
            mode = os.lstat(link).st_mode
            if not is_anonymous(target) and not _may_be_a_fifo(mode, place, number):
                continue
            if mode & stat_bits.S_IRUSR:
                reads.add(target)
            if mode & stat_bits.S_IWUSR:
                (says if number in {"1", "2"} else writes).add(target)
    return PipeEnds(frozenset(reads), frozenset(says), frozenset(writes))


def _has_a_name(target: str) -> bool:
    return target.startswith("/") and not target.startswith("/dev/")


def _may_be_a_fifo(mode: int, place: str, number: str) -> bool:
    """Whether it has one direction and no position: stat(2) may hang on a lost server."""
    if mode & _BOTH_WAYS == _BOTH_WAYS:
        return False
    return proc.read(f"{place}/fdinfo/{number}").split()[:2] == [b"pos:", b"0"]


def open_files(pid: int, root: Path = proc.PROC) -> list[str]:
    """The targets of its file descriptors; raises OSError at EMFILE and the like."""
    return list(_open_files(pid, root))


def _open_files(pid: int, root: Path) -> Iterator[str]:
    place = f"{root}/{pid}"
    numbers = proc.listed(f"{place}/fd")
    if not numbers and (other := proc.in_place_of_main_thread(pid, root)):
        place, numbers = other, proc.listed(f"{other}/fd")
    return _targets(place, numbers)


def _targets(place: str, numbers: Iterable[str]) -> Iterator[str]:
    for number in numbers:
        with suppress(OSError):
            yield os.readlink(f"{place}/fd/{number}")  # noqa: PTH115  (a str is what is compared)
