"""Requests to etcd, each with a time limit; it remembers which kinds of them fail."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from ascend_supervisor.etcd.failures import EtcdError

AGAIN_SECONDS = 0.5
"""The pause after a request that has failed."""

Answer = TypeVar("Answer")


def boot_time() -> float:
    """Seconds of CLOCK_BOOTTIME, which goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Requests:
    """``tell_trouble`` is called with a sentence when a request fails, with None when all succeed.

    That others succeed says nothing about one that fails: each kind of request has a name.
    """

    def __init__(self, tell_trouble: Callable[[str | None], None]) -> None:
        self._tell_trouble = tell_trouble
        self._failing: dict[str, tuple[float, str]] = {}
        """What etcd was last asked for in vain: since when, and why."""

    async def ask(
        self, what: str, ask: Callable[[], Awaitable[Answer]], seconds: float
    ) -> Answer | None:
        """The answer to a request of the kind ``what``; None if there is none in time."""
        answer, why = None, "etcd has not answered"
        with anyio.move_on_after(max(seconds, AGAIN_SECONDS)):
            try:
                answer = await ask()
            except EtcdError as error:
                why = str(error)
        if answer is None:
            self.fails(what, why)
        else:
            self.withdraw(what)
        return answer

    def fails(self, what: str, why: str) -> None:
        """One of this kind has failed."""
        since, _ = self._failing.pop(what, (boot_time(), ""))  # the newest comes last
        self._failing[what] = since, why
        self._tell_trouble(why)

    def withdraw(self, what: str) -> None:
        """One of this kind has succeeded, or none is to be asked any more."""
        self._failing.pop(what, None)
        if not self._failing:
            self._tell_trouble(None)

    def in_vain_for(self, seconds: float) -> str | None:
        """Why a kind of request has failed for so long; None if none has."""
        long_ago = boot_time() - seconds
        return next((why for since, why in self._failing.values() if since <= long_ago), None)

    @property
    def trouble(self) -> str:
        """Why the last request that failed did so; empty if none fails at present."""
        return next((why for _, why in reversed(self._failing.values())), "")
