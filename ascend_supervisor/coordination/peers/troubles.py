"""Etcd that does not answer: told once, and once when it does again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import anyio

from ascend_supervisor.coordination.peers.own_address import NoWay
from ascend_supervisor.errors import Unavailable
from ascend_supervisor.etcd.failures import EtcdError, MalformedAnswer, Refused
from ascend_supervisor.events import Report
from ascend_supervisor.events.peers import PeersReachable, PeersUnreachable
from ascend_supervisor.events.supervisor import Diagnostic

Answer = TypeVar("Answer")

AGAIN_SECONDS = 1.0
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
    ask: Callable[[], Awaitable[Answer]], seconds: float, troubles: Troubles
) -> Answer:
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
        await anyio.sleep(AGAIN_SECONDS)


def _in_vain(error: EtcdError, seconds: float) -> str:
    if isinstance(error, NoWay):
        return f"--servers: after {seconds:g} s {error}"
    return f"--peers: no answer within {seconds:g} s: {error}"
