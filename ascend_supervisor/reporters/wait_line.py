"""The last line of a terminal, which shows what is waited for, how long so far, and until when."""

from __future__ import annotations

from functools import partial
from typing import NoReturn

import anyio

from ascend_supervisor.events import Event, Level, Report
from ascend_supervisor.events.own_etcd import EtcdWaiting
from ascend_supervisor.events.rank_table import RankTableWaiting
from ascend_supervisor.events.supervisor import SupervisorExited
from ascend_supervisor.output.console import Console
from ascend_supervisor.output.footer import WAIT
from ascend_supervisor.reporters.event_log import LEVELS
from ascend_supervisor.reporters.waits import Wait, is_only_a_wait, line, wait_after
from ascend_supervisor.tasks.clock import Clock, whole_second

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
