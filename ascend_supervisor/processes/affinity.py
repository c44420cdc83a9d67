"""The CPUs and the memory that a process may use: given to the next child, changed, read.

A child has what the thread that starts it has, so nothing runs between fork and exec, and no
wrapper stands before the command.
"""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ascend_supervisor.processes import proc

SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}
"""The numbers of the system call."""
DEFAULT, PREFERRED = 0, 1
"""MPOL_*, see set_mempolicy(2)."""
MASK_BITS = 1024


@contextmanager
def given_to_children(cpus: frozenset[int] | None, node: int | None = None) -> Iterator[None]:
    """What this thread starts meanwhile runs on ``cpus``, and takes memory of ``node`` first.

    None: as this thread. Where the kernel refuses it, children run as this thread: ``cpus_of`` says
    what they got.
    """
    before = None
    if cpus is not None:
        with suppress(OSError):
            before = os.sched_getaffinity(0)
            os.sched_setaffinity(0, cpus)
    if node is not None:
        _prefer(node)
    try:
        yield
    finally:
        if before is not None:
            with suppress(OSError):
                os.sched_setaffinity(0, before)
        if node is not None:
            _prefer(None)


def bind(pid: int, cpus: frozenset[int]) -> None:
    """All threads of a process that runs already keep to ``cpus``, unless the kernel refuses it."""
    with suppress(OSError):
        for thread in map(int, proc.listed(f"/proc/{pid}/task")):
            with suppress(OSError):  # it has ended, or the cpuset has changed
                os.sched_setaffinity(thread, cpus)


def cpus_of(pid: int) -> frozenset[int] | None:
    """Where a process may run; None if it has gone."""
    with suppress(OSError):
        return frozenset(os.sched_getaffinity(pid))
    return None


def _prefer(node: int | None) -> None:
    """Docker's seccomp profile refuses this without CAP_SYS_NICE; then memory is local as ever."""
    call = SET_MEMPOLICY.get(platform.machine())
    if call is None:
        return
    mask = ctypes.create_string_buffer(MASK_BITS // 8)
    if node is not None:
        mask[node // 8] = bytes((1 << node % 8,))
    mode, bits = (DEFAULT, 0) if node is None else (PREFERRED, MASK_BITS)
    ctypes.CDLL(None).syscall(call, mode, mask if node is not None else None, bits)
