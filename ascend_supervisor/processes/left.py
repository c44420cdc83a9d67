"""Processes that do not end: when to tell of them, and for how long they are waited for."""

from __future__ import annotations

from collections.abc import Callable

import anyio
from msgspec import Struct

from ascend_supervisor.tasks.long_wait import SWEEP, LongWait


class Left(Struct, frozen=True):
    """Descriptions of processes that have not ended after ``waited`` of ``limit`` seconds.

    Without any, the wait that was told is over.
    """

    descriptions: tuple[str, ...]
    waited: float
    limit: float


TellLeft = Callable[[Left], None]


def wait_for_left(seconds: float, tell_left: TellLeft) -> LongWait:
    """A wait for at most so many ``seconds``, which begins now."""
    return LongWait(SWEEP, anyio.current_time, lambda waited: tell_left(Left((), waited, seconds)))
