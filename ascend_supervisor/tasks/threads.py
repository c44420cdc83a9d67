"""What may block runs in a thread; that there is no room for another is a sentence."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

import anyio.to_thread

from ascend_supervisor.errors import SCARCE, Unavailable

T = TypeVar("T")

NO_ROOM = f"the machine has no room for another thread: {SCARCE[errno.EAGAIN]}"


def start_thread(run: Callable[[], None], name: str) -> None:
    """Let ``run`` go its own way; the end of the program does not wait. Raises Unavailable."""
    try:
        threading.Thread(target=run, name=name, daemon=True).start()
    except RuntimeError as error:
        raise Unavailable(NO_ROOM) from error


async def aside(function: Callable[[], T]) -> T:
    """What ``function`` gives, in a thread where there is room for one, or else here."""
    try:
        return await in_thread(function)
    except Unavailable:
        return function()


async def in_thread(function: Callable[[], T], limiter: anyio.CapacityLimiter | None = None) -> T:
    """What ``function`` gives; it is left behind where it stands when we are cancelled.

    Raises Unavailable, or what ``function`` raises.
    """
    answer: Future[T] = Future()

    def call() -> None:
        try:
            answer.set_result(function())
        except BaseException as error:  # noqa: BLE001  (raised below)
            answer.set_exception(error)

    try:
        await anyio.to_thread.run_sync(call, abandon_on_cancel=True, limiter=limiter)
    except RuntimeError as error:  # not the function's: the thread could not be started
        raise Unavailable(NO_ROOM) from error
    return answer.result()


class Errand(Generic[T]):
    """``function``, called in a thread; to be made in a running event loop.

    Whoever waits for its result may be cancelled, and come back: the call goes on, and its result
    is kept.
    """

    def __init__(
        self, function: Callable[[], T], limiter: anyio.CapacityLimiter | None = None
    ) -> None:
        self._task = asyncio.ensure_future(in_thread(function, limiter))
        self._task.add_done_callback(_looked_at)

    @property
    def is_done(self) -> bool:
        return self._task.done()

    async def result(self) -> T:
        """What ``function`` gives; raises Unavailable, or what it raises."""
        await self.over()
        return self._task.result()

    async def over(self) -> None:
        """Wait for the end of the call, whatever it gives."""
        await asyncio.wait((self._task,))

    def then(self, act: Callable[[], None]) -> None:
        """Call ``act`` in the event loop when the call is over."""
        self._task.add_done_callback(lambda _: act())


def _looked_at(task: asyncio.Task[T]) -> None:
    """Nobody may wait for it any more; that it raised is then of no interest."""
    if not task.cancelled():
        task.exception()
