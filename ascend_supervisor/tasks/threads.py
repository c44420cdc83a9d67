"""Runs calls that may block in threads; raises NoThread if no thread can be started."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from functools import partial
from typing import Generic, TypeVar

import anyio.to_thread

from ascend_supervisor.scarcity import NoThread
from ascend_supervisor.tasks.thread_obstacle import thread_obstacle

T = TypeVar("T")

ANSWER_SECONDS = 2.0
"""How long a disk may take to answer whether a file or a directory exists."""


def start_thread(run: Callable[[], object], name: str) -> threading.Thread:
    """Call ``run`` in a daemon thread; the end of the program does not wait. Raises NoThread."""
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
    call = partial(_call, function, answer)
    try:
        await anyio.to_thread.run_sync(call, abandon_on_cancel=True, limiter=limiter)
    except RuntimeError as error:  # not the function's: the thread could not be started
        raise NoThread(thread_obstacle()) from error
    return answer.result()


def _call(function: Callable[[], T], answer: Future[T]) -> None:
    try:
        answer.set_result(function())
    except BaseException as error:  # noqa: BLE001  (raised where the answer is taken)
        answer.set_exception(error)


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
