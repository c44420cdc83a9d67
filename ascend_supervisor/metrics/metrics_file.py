"""Keeps the figures in a file that node_exporter's textfile collector reads."""

from __future__ import annotations

from collections.abc import Callable
from math import floor
from typing import NoReturn

import anyio

from ascend_supervisor.events import Event
from ascend_supervisor.events.supervisor import Diagnostic, SupervisorExited
from ascend_supervisor.files.writer_thread import LatestFile
from ascend_supervisor.metrics.figures import Snapshot
from ascend_supervisor.metrics.registry import Registry
from ascend_supervisor.tasks.clock import Clock
from ascend_supervisor.tasks.threads import aside

SOURCE = "the metrics file"
WRITE_SECONDS = 15
"""How often it is written while nothing happens: Prometheus usually asks as often."""
LEAST_SECONDS = 1.0
"""Between two writes, whatever happens."""


class MetricsFile:
    """Nothing is written before ``begin``, which opens the file.

    ``complaint`` is asked for before the first write, and told of ``source`` unless it is empty.
    It may block.
    """

    def __init__(
        self,
        opened: Callable[[], LatestFile[Snapshot]],
        clock: Clock,
        complaint: Callable[[], str] = str,
        source: str = SOURCE,
    ) -> None:
        self._opened = opened
        self._clock = clock
        self._source = source
        self._complaint = complaint
        self._changed = anyio.Event()
        self._begun = anyio.Event()

    def begin(self, registry: Registry) -> None:
        self._registry, self._file = registry, self._opened()
        self._begun.set()

    def report(self, event: Event) -> None:
        self._changed.set()
        if isinstance(event, SupervisorExited) and self._begun.is_set():
            self._write()

    async def keep(self) -> NoReturn:
        """Write the file at every event, and every WRITE_SECONDS at a whole second of the loop.

        Who sleeps until a whole second shares one wake-up (``whole_second``).
        """
        await self._begun.wait()
        if complaint := await aside(self._complaint):
            self._registry.tell(Diagnostic(self._source, complaint, None))
        while True:
            self._write()
            self._changed = anyio.Event()
            now = self._clock.now()
            with anyio.move_on_after(floor(now) + WRITE_SECONDS - now):
                await self._changed.wait()
            await self._clock.sleep(now + LEAST_SECONDS - self._clock.now())

    def _write(self) -> None:
        self._file.put(self._registry.snapshot())
