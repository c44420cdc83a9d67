"""The NPUs of this container: no generation starts while a process still holds one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ascend_supervisor.errors import Unavailable
from ascend_supervisor.events import Report
from ascend_supervisor.events.leftovers import ReleaseWaiting, wait_ended
from ascend_supervisor.probes import Probe
from ascend_supervisor.processes.descriptors import holders
from ascend_supervisor.tasks.clock import Clock
from ascend_supervisor.tasks.long_wait import RELEASE, LongWait
from ascend_supervisor.tasks.threads import aside

LOOK_AGAIN_SECONDS = 0.5
MOST_SECONDS = 600.0
"""A chip reset takes up to 150 s; a process that holds a device after this will not release it."""


class Devices(Probe):
    """Waits until no process that we can see holds one of ``paths``."""

    def __init__(self, paths: Sequence[str], clock: Clock, report: Report) -> None:
        self._paths = frozenset(paths)
        self._clock = clock
        self._report = report

    async def released(self) -> None:
        """Raises Unavailable after MOST_SECONDS, or OSError at EMFILE and the like."""
        if not self._paths:
            return
        began = self._clock.now()
        with LongWait(RELEASE, self._clock.elapsed, wait_ended(self._report)) as wait:
            while held_by := await aside(partial(holders, self._paths)):
                if self._clock.now() - began > MOST_SECONDS:
                    raise Unavailable(
                        f"the devices were not released within {MOST_SECONDS:g} s; "
                        "they are held by: " + "; ".join(held_by)
                    )
                if wait.is_due():
                    self._report(ReleaseWaiting(held_by, wait.told(), MOST_SECONDS))
                await self._clock.sleep(LOOK_AGAIN_SECONDS)
