"""Requests to etcd, each with a time limit; it remembers which kinds of them fail.

That etcd does not answer is told once, and once when it does again.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import anyio

from ascend_supervisor.coordination.peers.own_address import NoWay
from ascend_supervisor.errors import Unavailable
from ascend_supervisor.etcd.failures import EtcdError, MalformedAnswer, Refused
from ascend_supervisor.events import Report
from ascend_supervisor.events.peers import PeersReachable, PeersUnreachable
from ascend_supervisor.events.supervisor import Diagnostic

AGAIN_SECONDS = 0.5
"""The pause after a request that has failed."""

Reply = TypeVar("Reply")


def boot_time() -> float:
    """Seconds of CLOCK_BOOTTIME, which goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class EtcdRequests:
    """``tell_trouble`` is called with a sentence when a request fails, with None when all succeed.

    That others succeed says nothing about one that fails: each kind of request has a name.
    """

    def __init__(self, tell_trouble: Callable[[str | None], None]) -> None:
        self._tell_trouble = tell_trouble
        self._failing: dict[str, tuple[float, str]] = {}
        """What etcd was last asked for in vain: since when, and why."""

    async def ask(
        self, what: str, ask: Callable[[], Awaitable[Reply]], seconds: float
    ) -> Reply | None:
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


ASK_AGAIN_SECONDS = 1.0
MOST_DAMAGED = 16
COUNTS_FOR_NOTHING = "it counts for nothing, and who knows better puts it again"


class Troubles:
    """``ranks_run`` says whether there are ranks here."""

    def __init__(self, report: Report, ranks_run: Callable[[], bool]) -> None:
        self._report = report
        self._ranks_run = ranks_run
        self._is_told = False
        self._damaged: set[str] = set()

    def tell(self, trouble: str | None) -> None:
        """``trouble`` is a sentence; None: there is none."""
        if trouble is not None and not self._is_told:
            self._report(PeersUnreachable(trouble, self._ranks_run()))
        if trouble is None and self._is_told:
            self._report(PeersReachable())
        self._is_told = trouble is not None

    def tell_damage(self, damaged: Mapping[str, str]) -> None:
        """Each key once, and not too many: a stranger may write to any."""
        for key in damaged.keys() - self._damaged:
            self._damaged.add(key)
            if len(self._damaged) <= MOST_DAMAGED:
                self._report(Diagnostic("--peers", f"{damaged[key]}; {COUNTS_FOR_NOTHING}", None))


async def first_answer(
    ask: Callable[[], Awaitable[Reply]], seconds: float, troubles: Troubles
) -> Reply:
    """The answer to ``ask``, which asks etcd, once there is one.

    Raises Unavailable if etcd refuses us, or if there is none within ``seconds``.
    """
    end = anyio.current_time() + seconds
    while True:
        try:
            answer = await ask()
        except (Refused, MalformedAnswer) as error:
            raise Unavailable(f"--peers: {error}") from error
        except EtcdError as error:
            if anyio.current_time() >= end:
                raise Unavailable(_in_vain(error, seconds)) from error
            troubles.tell(str(error))
        else:
            troubles.tell(None)
            return answer
        await anyio.sleep(ASK_AGAIN_SECONDS)


def _in_vain(error: EtcdError, seconds: float) -> str:
    if isinstance(error, NoWay):
        return f"--servers: after {seconds:g} s {error}"
    return f"--peers: no answer within {seconds:g} s: {error}"
