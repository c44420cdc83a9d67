"""Runs calls that may block in threads; raises NoThread if no thread can be started, and says why.

Python does not say it: it is found by trying what a thread needs.
"""

from __future__ import annotations

import asyncio
import errno
import mmap
import os
import resource
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

import anyio.to_thread

from ascend_supervisor.scarcity import MORE_MEMORY, MORE_THREADS, NoThread

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


T = TypeVar("T")

ANSWER_SECONDS = 2.0
"""How long a disk may take to answer whether a file or a directory exists."""
GONE_SECONDS = 1.0
"""How long the kernel may take to forget threads that have ended."""
MOST_IDLE = 4
"""So many threads wait for the next call: it may come when there is no room for another thread."""


def start_thread(run: Callable[[], object], name: str) -> threading.Thread:
    """Call ``run`` in a daemon thread; the end of the program does not wait. Raises NoThread."""
    if is_memory_short():
        raise NoThread(thread_obstacle())
    thread = threading.Thread(target=run, name=name, daemon=True)
    try:
        thread.start()
    except (RuntimeError, MemoryError) as error:
        raise NoThread(thread_obstacle()) from error
    return thread


def answer_of(ask: Callable[[], T], seconds: float, otherwise: T) -> T:
    """What ``ask`` answers, or raises, within so many seconds; it may block. Raises NoThread."""
    answer: Future[T] = Future()
    start_thread(partial(_call, ask, answer), "an answer")
    wait((answer,), seconds)
    return answer.result() if answer.done() else otherwise


def check_room(threads: int) -> None:
    """Raise NoThread if so many threads cannot be started now; none of them is left."""
    enough = threading.Event()
    started: list[threading.Thread] = []
    try:
        for _ in range(threads):
            started.append(start_thread(enough.wait, "room"))  # noqa: PERF401  (one may raise)
    finally:
        enough.set()
        for thread in started:
            thread.join()
        _wait_until_forgotten(started)


def _wait_until_forgotten(ended: Iterable[threading.Thread]) -> None:
    """Wait until they do not count any more: join returns while the kernel still has them."""
    until = time.monotonic() + GONE_SECONDS
    places = [f"/proc/self/task/{thread.native_id}" for thread in ended]
    while any(map(os.path.exists, places)) and time.monotonic() < until:
        time.sleep(0.001)


async def aside(function: Callable[[], T]) -> T:
    """The result of ``function``, run in a thread, or here if no thread can be started."""
    try:
        return await in_thread(function)
    except NoThread:
        return function()


async def in_thread(function: Callable[[], T], limiter: anyio.CapacityLimiter | None = None) -> T:
    """The result of ``function``, run in a thread, which is abandoned on cancellation.

    Raises NoThread, or what ``function`` raises.
    """
    answer: Future[T] = Future()
    async with limiter or anyio.to_thread.current_default_thread_limiter():
        caller = _idle.pop() if _idle else _Caller()
        caller.calls.put((function, answer))
        return await asyncio.wrap_future(answer)


class _Caller:
    """A thread that makes one call after the other. Making one raises NoThread."""

    def __init__(self) -> None:
        self.calls: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        start_thread(self._run, "calls")

    def _run(self) -> None:
        is_idle = True
        while is_idle:
            function, answer = self.calls.get()
            tell = _result_of(function, answer) if answer.set_running_or_notify_cancel() else None
            is_idle = len(_idle) < MOST_IDLE
            if is_idle:  # before anybody can ask for more
                _idle.append(self)
            if tell is not None:
                tell()
            del function, answer, tell


_idle: list[_Caller] = []


def _call(function: Callable[[], T], answer: Future[T]) -> None:
    _result_of(function, answer)()


def _result_of(function: Callable[[], T], answer: Future[T]) -> Callable[[], None]:
    """Call ``function``; returns what gives its result as ``answer``."""
    try:
        return partial(answer.set_result, function())
    except BaseException as error:  # noqa: BLE001  (raised where the answer is taken)
        return partial(answer.set_exception, error)


class Errand(Generic[T]):
    """``function``, called in a thread; to be made in a running event loop.

    A caller that waits for the result may be cancelled and wait again: the call goes on, and its
    result is kept.
    """

    def __init__(
        self, function: Callable[[], T], limiter: anyio.CapacityLimiter | None = None
    ) -> None:
        self._task = asyncio.ensure_future(in_thread(function, limiter))
        self._task.add_done_callback(_looked_at)

    @property
    def is_done(self) -> bool:
        return self._task.done()

    @property
    def answer(self) -> T:
        """The result of a call that is done; raises as ``result`` does."""
        return self._task.result()

    async def result(self) -> T:
        """The result of ``function``; raises NoThread, or what it raises."""
        await self.over()
        return self._task.result()

    async def over(self) -> None:
        """Wait for the end of the call, whatever its result."""
        await asyncio.wait((self._task,))

    def then(self, act: Callable[[], None]) -> None:
        """Call ``act`` in the event loop when the call is over."""
        self._task.add_done_callback(lambda _: act())


def _looked_at(task: asyncio.Task[T]) -> None:
    """Mark an exception as retrieved, because there may be no caller left."""
    if not task.cancelled():
        task.exception()
