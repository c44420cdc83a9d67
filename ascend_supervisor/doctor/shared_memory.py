"""Shared memory (/dev/shm): whether it is large enough, and what the dead have left there."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from ascend_supervisor.doctor.check import ThisServer, fit, warning
from ascend_supervisor.doctor.npus import npus_of
from ascend_supervisor.events.server import Result
from ascend_supervisor.phrases import counted
from ascend_supervisor.processes import proc

SHARED_MEMORY = "shared memory"
DOCKERS_DEFAULT = 64 << 20
LEAST_FREE = 16 << 20
MOST_FILES = 20_000
_OF_TORCH = re.compile(r"torch_([1-9][0-9]{0,9})_", re.ASCII)
"""How PyTorch names shared tensors: by the pid of who has made them."""


def shared_memory(server: ThisServer) -> Iterator[Result]:
    """How large it is, and what processes that have ended left there.

    Nothing where there is none; raises OSError.
    """
    place = server.roots.dev / "shm"
    if not place.is_dir():
        return
    space = os.statvfs(place)
    size, free = space.f_blocks * space.f_frsize, space.f_bavail * space.f_frsize
    found = f"{place} of {size >> 20} MiB, {free >> 20} MiB of it free"
    if npus_of(server) and size <= DOCKERS_DEFAULT:
        yield warning(
            SHARED_MEMORY,
            found,
            f"more than {DOCKERS_DEFAULT >> 20} MiB, which Docker gives if nobody asks for more",
            "start the container with --shm-size, or mount an emptyDir of medium Memory there: "
            "data loaders and HCCL hand over their data in it",
        )
        return
    left, number = _left(place)
    if free < LEAST_FREE or left > size // 2:
        of_the_dead = (
            f"; {left >> 20} MiB in {counted(number, 'file')} of processes that have ended"
        )
        yield warning(
            SHARED_MEMORY,
            f"{found}{of_the_dead if number else ''}",
            f"at least {LEAST_FREE >> 20} MiB free",
            "remove what nobody uses there; files named torch_PID_ belong to a process PID, which "
            "may be one of another container if they share /dev/shm",
        )
    else:
        yield fit(SHARED_MEMORY, found)


def _left(place: Path) -> tuple[int, int]:
    """Bytes and number of files whose names tell a process that does not live here."""
    size = number = 0
    with os.scandir(place) as entries:
        for entry in islice(entries, MOST_FILES):
            named = _OF_TORCH.match(entry.name)
            if named and not proc.is_alive(int(named[1])):
                size += entry.stat(follow_symlinks=False).st_size
                number += 1
    return size, number
