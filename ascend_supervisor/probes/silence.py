"""Notices that ranks hang: they write nothing, or do not notify, for longer than they may.

Nothing is written and nothing is polled meanwhile: a look says when the next one is due.
"""

from __future__ import annotations

from functools import partial

import anyio

from ascend_supervisor.events import Report
from ascend_supervisor.life import Life, Living
from ascend_supervisor.outcome import Fault
from ascend_supervisor.probes import Probe
from ascend_supervisor.probes.hang import Hang
from ascend_supervisor.probes.signs_of_life import voices
from ascend_supervisor.probes.silence_limits import Limits, judged
from ascend_supervisor.processes import proc
from ascend_supervisor.tasks.clock import Clock
from ascend_supervisor.tasks.race import first

LOOK_AGAIN_SECONDS = 1.0
"""After a look at /proc for which no descriptor was left."""
MOST_SECONDS = 3600.0


class Silence(Probe):
    """Ends a generation that passes one of ``limits``, or that a rank itself calls hung."""

    def __init__(self, limits: Limits, clock: Clock, report: Report) -> None:
        self._limits = limits
        self._clock = clock
        self._report = report
        self._noticed: tuple[Life, Fault] | None = None

    async def must_end(self, life: Life) -> Fault:
        """The first hang of this life, which is reported once.

        Nothing is a hang any more when the generation is being ended: ranks that write a last
        checkpoint are silent.
        """
        if self._noticed is None or self._noticed[0] is not life:
            hang = await self._hang(life)
            self._report(hang.event(life.generation))
            self._noticed = life, hang.fault
        return self._noticed[1]

    async def _hang(self, life: Life) -> Hang:
        began = self._clock.now()
        while True:
            found = self._look(life, began)
            if isinstance(found, Hang):
                return found
            await self._wait(life, min(found, MOST_SECONDS))
            if life.is_ending:
                await anyio.sleep_forever()

    def _look(self, life: Life, began: float) -> Hang | float:
        try:
            gone = _gone(life)
        except OSError:
            return LOOK_AGAIN_SECONDS
        return judged(voices(life, gone), self._limits, began, self._clock.now())

    async def _wait(self, life: Life, seconds: float) -> None:
        """Sleep for so long, or until a rank says that it hangs or changes its own limit."""
        news = anyio.Event()
        before = _own_limits(life)

        def look_for_news() -> None:
            gave_up = any(one.gave_up_at is not None for one in life.notified.values())
            if gave_up or _own_limits(life) != before:
                news.set()

        life.tell_notified = look_for_news
        await first(partial(self._clock.sleep, seconds), news.wait)


def _own_limits(life: Life) -> dict[int, float | None]:
    return {rank: one.watchdog_seconds for rank, one in life.notified.items()}


def _gone(life: Life) -> frozenset[int]:
    """The workers of launchers that have ended; raises OSError at EMFILE and the like."""
    return frozenset(
        pid
        for living in life.processes
        for pid in living.ranks_of_workers
        if not _lives(pid, living)
    )


def _lives(pid: int, launcher: Living) -> bool:
    """Another process that has got the number is not the launcher's child."""
    found = proc.stat(pid)
    return found is not None and found.parent == launcher.pid and not found.is_dead
