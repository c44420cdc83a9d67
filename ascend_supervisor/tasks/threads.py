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

import anyio

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


class Call(Generic[T]):
    """``function``, called in a thread; one that never returns takes that thread and no more.

    Whoever waits for it may give up and come back: the call goes on, and its result is kept.
    """

    def __init__(self, function: Callable[[], T]) -> None:
        self._result: Future[T] = Future()
        try:
            _free_caller().calls.put((function, self._result))
        except NoThread as lacking:
            self._result.set_exception(lacking)

    @property
    def is_done(self) -> bool:
        return self._result.done()

    @property
    def answer(self) -> T:
        """The result of a call that is done; raises NoThread, or what ``function`` raises."""
        return self._result.result()

    def wait(self, seconds: float) -> bool:
        """Whether it is done within so many seconds; nothing else runs in this thread meanwhile."""
        return bool(wait((self._result,), seconds).done)

    def within(self, seconds: float, otherwise: T) -> T:
        """The ``answer``, or ``otherwise`` if there is none within so many seconds; as ``wait``."""
        return self.answer if self.wait(seconds) else otherwise

    async def over(self) -> None:
        """Wait until it is done, whatever its result."""
        over = asyncio.Event()
        self.then(over.set)
        await over.wait()

    async def result(self) -> T:
        """The ``answer``, when there is one."""
        await self.over()
        return self.answer

    def then(self, act: Callable[[], None]) -> None:
        """Call ``act`` in this event loop when the call is done."""
        loop = asyncio.get_running_loop()

        def tell(_: Future[T]) -> None:
            with suppress(RuntimeError):  # that loop has ended meanwhile
                loop.call_soon_threadsafe(act)

        self._result.add_done_callback(tell)


async def aside(function: Callable[[], T]) -> T:
    """The result of ``function``, run in a thread, or here if no thread can be started."""
    try:
        return await Call(function).result()
    except NoThread:
        return function()


async def in_turn(function: Callable[[], T], places: anyio.Semaphore) -> T:
    """The result of a Call when one of ``places`` is free; it is taken until the call is done."""
    await places.acquire()
    call = Call(function)
    call.then(places.release)
    return await call.result()


class _Caller:
    """A thread that makes one call after the other. Making one raises NoThread."""

    def __init__(self) -> None:
        self.calls: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        start_thread(self._run, "calls")

    def _run(self) -> None:
        is_idle = True
        while is_idle:
            function, result = self.calls.get()
            tell = _told(function, result)
            is_idle = len(_idle) < MOST_IDLE
            if is_idle:  # before anybody can ask for more
                _idle.append(self)
            tell()
            del function, result, tell


_idle: list[_Caller] = []


def _free_caller() -> _Caller:
    try:
        return _idle.pop()
    except IndexError:
        return _Caller()


def _told(function: Callable[[], T], result: Future[T]) -> Callable[[], None]:
    """Call ``function``; returns what tells its ``result``."""
    try:
        return partial(result.set_result, function())
    except BaseException as error:  # noqa: BLE001  (raised where the answer is taken)
        return partial(result.set_exception, error)
