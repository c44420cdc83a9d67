"""What the ranks may have of descriptors, processes and threads, and memory."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

from ascend_supervisor.doctor.check import ThisServer, fit, warning
from ascend_supervisor.doctor.npus import npus_of
from ascend_supervisor.events.server import Result
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
