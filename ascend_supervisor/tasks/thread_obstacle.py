"""Why no thread can be started, which Python does not say: found by trying what a thread needs."""

from __future__ import annotations

import errno
import mmap
import os
import resource
import threading
from collections.abc import Iterator
from contextlib import suppress

from ascend_supervisor.scarcity import MORE_MEMORY, MORE_THREADS

USUAL_STACK = 8 << 20
GUARD = 64 << 10
"""The pages beside a stack that nobody may touch; 64 KiB is the largest page."""
LIMITS = {"ulimit -v": resource.RLIMIT_AS, "ulimit -d": resource.RLIMIT_DATA}


def thread_obstacle() -> str:
    """What is in the way of a thread now, and what to do."""
    size = _stack_size()
    if not _is_free(size + GUARD):
        how = ", ".join(_memory_limits())
        remedy = f"raise {how}" if how else MORE_MEMORY
        return f"there is no memory for the stack of another thread ({size >> 10} KiB): {remedy}"
    match _error_of_a_thread():
        case 0:
            return (
                "there was no room for another thread at that moment: "
                f"{MORE_THREADS}, or {MORE_MEMORY}"
            )
        case errno.EPERM | errno.ENOSYS as number:
            return (
                f"another thread is forbidden ({os.strerror(number)}): container runtimes that are "
                "older than the C library here forbid clone3; use a newer one (Docker 20.10.10 or "
                "later), or start the container with --security-opt seccomp=unconfined"
            )
        case _:
            return f"the machine has no room for another thread: {MORE_THREADS}"


def _stack_size() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_STACK)
    usual = USUAL_STACK if soft == resource.RLIM_INFINITY else soft
    return threading.stack_size() or usual


def _is_free(size: int) -> bool:
    """Whether so much address space can be had, as a C library takes it for a stack."""
    try:
        mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except (OSError, MemoryError):
        return False
    return True


def _memory_limits() -> Iterator[str]:
    """Those that are set."""
    for name, number in LIMITS.items():
        soft, _ = resource.getrlimit(number)
        if soft != resource.RLIM_INFINITY:
            yield f"{name} ({soft >> 10} KiB)"


def _error_of_a_thread() -> int:
    """What pthread_create returns for a thread that does nothing; EAGAIN if it cannot be called."""
    with suppress(ImportError, OSError, AttributeError, MemoryError):
        import ctypes  # noqa: PLC0415  (nobody else needs it by now)

        libc = ctypes.CDLL(None)
        thread = ctypes.c_ulong()
        does_nothing = ctypes.cast(libc.sched_yield, ctypes.c_void_p)
        number = int(libc.pthread_create(ctypes.byref(thread), None, does_nothing, None))
        if number == 0:
            libc.pthread_join(thread, None)
        return number
    return errno.EAGAIN
