"""Keeps the figures in a file that node_exporter's textfile collector reads."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from math import floor
from pathlib import Path
from typing import NoReturn

import anyio

from ascend_supervisor.control.status_answer import LiveStatus
from ascend_supervisor.events import Event
from ascend_supervisor.events.supervisor import SupervisorExited
from ascend_supervisor.files.writer_thread import LatestFile
from ascend_supervisor.job_files import Place
from ascend_supervisor.metrics.figures import Snapshot, text_of
from ascend_supervisor.metrics.tally import Tally, counted
from ascend_supervisor.processes.proc import resident_bytes
from ascend_supervisor.progress.record import TrainingRecord
from ascend_supervisor.tasks.clock import Clock

WRITE_SECONDS = 15
"""How often it is written while nothing happens: Prometheus usually asks as often."""
LEAST_SECONDS = 1.0
"""Between two writes, whatever happens."""


class MetricsFile:
    """``report`` counts events from the first one on; nothing is written before ``begin``."""

    def __init__(self, path: Path, place: Place, training: TrainingRecord, clock: Clock) -> None:
        self.path = path
        self.text_of: Callable[[Snapshot], bytes] = partial(
            text_of, names={"job_id": place.job_id, "pod_name": place.pod}
        )
        self._training = training
        self._clock = clock
        self._tally = Tally()
        self._changed = anyio.Event()
        self._begun = anyio.Event()

    def begin(self, file: LatestFile[Snapshot], status: Callable[[], LiveStatus]) -> None:
        self._file, self._status = file, status
        self._begun.set()

    def report(self, event: Event) -> None:
        self._tally = counted(self._tally, event, self._clock.elapsed())
        self._changed.set()
        if isinstance(event, SupervisorExited) and self._begun.is_set():
            self._write()

    async def keep(self) -> NoReturn:
        """Write the file at every event, and every WRITE_SECONDS at a whole second of the loop.

        Who sleeps until a whole second shares one wake-up (``whole_second``).
        """
        await self._begun.wait()
        while True:
            self._write()
            self._changed = anyio.Event()
            now = self._clock.now()
            with anyio.move_on_after(floor(now) + WRITE_SECONDS - now):
                await self._changed.wait()
            await self._clock.sleep(now + LEAST_SECONDS - self._clock.now())

    def _write(self) -> None:
        self._file.put(
            Snapshot(
                live=self._status(),
                tally=self._tally,
                now=self._clock.elapsed(),
                longest_pause=self._training.longest_pause,
                cpu_seconds=time.process_time(),
                memory_bytes=resident_bytes(os.getpid()),
            )
        )
