"""Why no thread can be started, which Python does not say: found by trying what a thread needs.

Nor does it say that there is too little memory: then the start of a thread may never return.
"""

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
RESERVE = 1 << 20
"""What a thread takes beside its stack before it can say that it runs, and much more."""
NO_RESERVE = 0x4000
"""MAP_NORESERVE, as for a stack; mmap has it from Python 3.11 on."""
LIMITS = {"ulimit -v": resource.RLIMIT_AS, "ulimit -d": resource.RLIMIT_DATA}


def thread_obstacle() -> str:
    """What is in the way of a thread now, and what to do."""
    number = _error_of_a_thread()
    if not _is_memory_free():
        how = ", ".join(_memory_limits())
        remedy = f"raise {how}" if how else MORE_MEMORY
        size = f"{_stack_size() >> 10} KiB"
        return f"there is no memory for the stack of another thread ({size}): {remedy}"
    match number:
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


def is_memory_short() -> bool:
    """Whether there may be too little memory for another thread.

    The C library takes 64 MiB of address space for what a new thread allocates, or nothing; the
    next thread has it again. Trying that costs 15 ms once, so it is done under a limit only.
    """
    if not _is_memory_free():
        return True
    if not any(_memory_limits()):
        return False
    _error_of_a_thread()
    return not _is_memory_free()


def _is_memory_free() -> bool:
    return _is_free(_stack_size() + GUARD + RESERVE)


def _stack_size() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_STACK)
    usual = USUAL_STACK if soft == resource.RLIM_INFINITY else soft
    return threading.stack_size() or usual


def _is_free(size: int) -> bool:
    """Whether so much address space can be had, as a C library takes it for a stack."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE
    try:
        mmap.mmap(-1, size, flags=flags).close()
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
    """What pthread_create returns for a thread that allocates a little; EAGAIN if it is not there.

    No Python runs in that thread, so it always ends.
    """
    with suppress(ImportError, OSError, AttributeError, MemoryError):
        import ctypes  # noqa: PLC0415  (nobody else needs it by now)

        libc = ctypes.CDLL(None)
        thread, memory = ctypes.c_ulong(), ctypes.c_void_p()
        malloc, size = ctypes.cast(libc.malloc, ctypes.c_void_p), ctypes.c_void_p(64)
        number = int(libc.pthread_create(ctypes.byref(thread), None, malloc, size))
        if number == 0:
            libc.pthread_join(thread, ctypes.byref(memory))
            libc.free(memory)
        return number
    return errno.EAGAIN
