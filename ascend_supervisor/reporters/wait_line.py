"""The last line of a terminal, which shows what is waited for, how long so far, and until when."""

from __future__ import annotations

from functools import partial
from math import ceil
from typing import NoReturn

import anyio
from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.events import Event, Level, Report
from ascend_supervisor.events.cluster import ClusterWaiting
from ascend_supervisor.events.generations import (
    GenerationEnded,
    GenerationStarted,
    ProcessExited,
    RestartScheduled,
)
from ascend_supervisor.events.leftovers import PortWaiting, ReleaseWaiting, StopWaiting, WaitEnded
from ascend_supervisor.events.own_etcd import EtcdWaiting
from ascend_supervisor.events.peers import PeersWaiting
from ascend_supervisor.events.rank_table import RankTableReady, RankTableWaiting
from ascend_supervisor.events.supervisor import ExitLingering, SupervisorExited
from ascend_supervisor.output.console import Console
from ascend_supervisor.output.footer import WAIT
from ascend_supervisor.output.terminal import cut
from ascend_supervisor.phrases import duration
from ascend_supervisor.reporters.event_log import LEVELS
from ascend_supervisor.tasks.clock import Clock, whole_second
from ascend_supervisor.untrusted_text import printable

FEWEST_WORDS = 20
"""Columns; in a narrower window the time is left out."""


class Wait(Struct, frozen=True):
    """A wait for ``words``, after ``waited`` seconds of at most ``limit`` (None: no limit)."""

    words: str
    waited: float
    limit: float | None


def wait_after(wait: Wait | None, event: Event) -> Wait | None:
    """What is waited for after ``event``; None if nothing is."""
    match event:
        case RankTableWaiting() | ClusterWaiting() | PortWaiting():
            return Wait(event.what, event.waited_seconds, event.limit_seconds)
        case PeersWaiting():
            return Wait(event.what, event.waited_seconds, None)
        case EtcdWaiting():
            return Wait(event.what, event.waited_seconds, event.limit_seconds)
        case ReleaseWaiting():
            words = f"waiting for the release of the devices by {'; '.join(event.remaining)}"
            return Wait(words, event.waited_seconds, event.limit_seconds)
        case StopWaiting(given_up=False):
            words = f"waiting for the end of {'; '.join(event.remaining)}"
            return Wait(words, event.waited_seconds, event.limit_seconds)
        case ProcessExited() if wait is not None:  # one of those that were named, perhaps
            return replace(wait, words="waiting for the end of the other processes")
        case ExitLingering():
            return Wait("waiting before the end (--exit-linger)", 0.0, event.delay_seconds)
        case RestartScheduled() if event.delay_seconds:
            return Wait("waiting before the restart of all ranks", 0.0, event.delay_seconds)
        case (
            WaitEnded()
            | StopWaiting()
            | RankTableReady()
            | GenerationStarted()
            | GenerationEnded()
            | RestartScheduled()
            | SupervisorExited()
        ):
            return None
        case _:
            return wait


def is_only_a_wait(event: Event) -> bool:
    """Whether ``event`` says nothing but what is waited for, and why."""
    match event:
        case RankTableWaiting() | ClusterWaiting() | PeersWaiting():
            return True
        case ReleaseWaiting() | PortWaiting():
            return True
        case EtcdWaiting():
            return True
        case StopWaiting(given_up=False):
            return True
        case _:
            return False


def line(wait: Wait, waited: float, columns: int) -> str:
    """The line after ``waited`` seconds, at most ``columns`` wide; the words are cut first."""
    words = printable(wait.words)
    until = "" if wait.limit is None else f", until {duration(ceil(wait.limit))}"
    time = f" ({duration(int(waited))}{until})"
    if columns < len(time) + FEWEST_WORDS:
        return cut(words, columns)
    return cut(words, columns - len(time)) + time


LONG_WORDS = 120
"""Characters: longer ones are cut in the last line of most windows."""


class WaitLine:
    """``report`` passes events on, but those that only tell of a wait change the last line instead.

    A long reason why there is no rank table or no etcd is passed on as well whenever it changes,
    because the last line shows only its beginning. Waits below ``level`` are not shown.
    """

    def __init__(self, console: Console, report: Report, level: Level, clock: Clock) -> None:
        self._console = console
        self._report = report
        self._least = LEVELS[level]
        self._clock = clock
        self._wait: Wait | None = None
        self._since = 0.0
        self._begun = anyio.Event()
        self._is_over = False

    def report(self, event: Event) -> None:
        if self._is_over:
            return
        self._is_over = isinstance(event, SupervisorExited)
        following = wait_after(self._wait, event)
        is_line = not is_only_a_wait(event) or (
            isinstance(event, RankTableWaiting | EtcdWaiting) and self._is_too_long(following)
        )
        if following != self._wait and (following is None or self._is_told(event)):
            self._change(following)
        if is_line:
            self._report(event)

    async def keep_current(self) -> NoReturn:
        """Draw the line anew every second, while there is one; never returns."""
        while True:
            await self._begun.wait()
            while self._wait is not None:
                await whole_second()
                self._draw()
            self._begun = anyio.Event()

    def _is_too_long(self, following: Wait | None) -> bool:
        """Whether there are new words that the last line has no room for."""
        if following is None or len(following.words) <= LONG_WORDS:
            return False
        return self._wait is None or following.words != self._wait.words

    def _is_told(self, event: Event) -> bool:
        return LEVELS[event.severity] >= self._least

    def _change(self, following: Wait | None) -> None:
        if following is not None and (self._wait is None or following.waited != self._wait.waited):
            self._since = self._clock.elapsed() - following.waited
        self._wait = following
        self._draw()
        if following is not None:
            self._begun.set()

    def _draw(self) -> None:
        words = None if self._wait is None else partial(self._line, self._wait)
        self._console.keep(WAIT, words)

    def _line(self, wait: Wait, columns: int) -> str:
        return line(wait, self._clock.elapsed() - self._since, columns)
