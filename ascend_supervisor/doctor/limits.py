"""What the ranks may have of descriptors, processes and threads, memory and shared memory."""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from ascend_supervisor.doctor.check import ThisServer, fit, warning
from ascend_supervisor.doctor.npus import npus_of
from ascend_supervisor.events.server import Result
from ascend_supervisor.phrases import counted
from ascend_supervisor.processes import proc
from ascend_supervisor.processes.kernel import free_memory, free_processes

LEAST_DESCRIPTORS = 1024
"""The usual soft limit of Linux."""
OF_A_RANK = 32
"""Processes and threads: Python with PyTorch has more before its first step."""
MEMORY_OF_A_RANK = 1 << 30
"""What torch_npu or MindSpore and the runtime of CANN take on the host, and not all of it."""


def limits(server: ThisServer) -> Iterator[Result]:
    """Without NPUs nothing is said of processes and memory: such ranks may be small."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < LEAST_DESCRIPTORS:
        remedy = "raise ulimit -n (docker run --ulimit nofile=65535)"
        expected = f"at least {LEAST_DESCRIPTORS}"
        yield warning("descriptors", f"ulimit -n {soft}", expected, remedy)
    else:
        yield fit("descriptors", "unlimited" if soft == resource.RLIM_INFINITY else f"{soft}")
    if server.ranks and npus_of(server):
        yield from _processes(server, server.ranks)
        yield from _memory(server, server.ranks)


def _processes(server: ThisServer, ranks: int) -> Iterator[Result]:
    free = free_processes(server.roots.proc / "self" / "cgroup", server.roots.cgroups)
    if free is None:
        return
    found, least = f"room for {free} more in the cgroup", ranks * OF_A_RANK
    if free < least:
        expected = f"at least {least}: {OF_A_RANK} for each of {ranks} ranks"
        remedy = "raise pids.max (docker run --pids-limit, kubelet's podPidsLimit)"
        yield warning("processes and threads", found, expected, remedy)
    else:
        yield fit("processes and threads", found)


def _memory(server: ThisServer, ranks: int) -> Iterator[Result]:
    roots: Path = server.roots.proc
    free = free_memory(roots / "self" / "cgroup", server.roots.cgroups, roots / "meminfo")
    if free is None:
        return
    found, least = f"{free / (1 << 30):.1f} GiB free", ranks * MEMORY_OF_A_RANK
    if free < least:
        expected = f"at least {least >> 30} GiB: 1 for each of {ranks} ranks"
        remedy = "give the container more memory, or see who else uses it"
        yield warning("memory", found, expected, remedy)
    else:
        yield fit("memory", found)


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
