"""Runs calls that may block in threads; raises NoThread if no thread can be started.

All our threads start in ``start_thread``: Thread.start waits until the new thread says that it
runs, for ever if that has no memory for it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from functools import partial
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

import anyio.to_thread

from ascend_supervisor.scarcity import NoThread
from ascend_supervisor.tasks.thread_obstacle import is_memory_short, thread_obstacle

T = TypeVar("T")

ANSWER_SECONDS = 2.0
"""How long a disk may take to answer whether a file or a directory exists."""
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
