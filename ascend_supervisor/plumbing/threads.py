"""What may block runs in a thread; that there is no room for another is a sentence."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from typing import TypeVar

import anyio.to_thread

from ascend_supervisor.errors import SCARCE, Unavailable

T = TypeVar("T")

NO_ROOM = f"the machine has no room for another thread: {SCARCE[errno.EAGAIN]}"
_FULL = "can't start new thread"


def start_thread(run: Callable[[], None], name: str) -> None:
    """Let ``run`` go its own way; the end of the program does not wait. Raises Unavailable."""
    try:
        threading.Thread(target=run, name=name, daemon=True).start()
    except RuntimeError as error:
        raise Unavailable(NO_ROOM) from error


async def in_thread(function: Callable[[], T], limiter: anyio.CapacityLimiter | None = None) -> T:
    """What ``function`` gives; it is left behind where it stands when we are cancelled.

    Raises Unavailable, or what ``function`` raises.
    """
    try:
        return await anyio.to_thread.run_sync(function, abandon_on_cancel=True, limiter=limiter)
    except RuntimeError as error:
        if str(error) != _FULL:
            raise
        raise Unavailable(NO_ROOM) from error
