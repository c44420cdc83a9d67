"""The workers that a launcher starts: who is which rank, and the logs they write themselves."""

from __future__ import annotations

from contextlib import suppress
from typing import NoReturn

import anyio

from ascend_supervisor.errors import Unavailable
from ascend_supervisor.launchers.failure_words import Testimony
from ascend_supervisor.launchers.spec import ProcessSpec
from ascend_supervisor.output.launcher_logs import WorkerLogs
from ascend_supervisor.output.mirror import Mirror
from ascend_supervisor.processes.pid import Pid
from ascend_supervisor.tasks.threads import in_thread
from ascend_supervisor.workers.process import Process
from ascend_supervisor.workers.runtime import Runtime

CENSUS_SECONDS = 0.1
"""How often it is looked for workers, until all of them have been seen."""


class LaunchedWorkers:
    """Those of one launcher, ``process``; ``ranks`` are theirs, by their pids."""

    def __init__(
        self, process: Process, testimony: Testimony, generation: int, runtime: Runtime
    ) -> None:
        self.ranks: dict[int, int] = {}
        self._process = process
        self._testimony = testimony
        self._runtime = runtime

        def mirror(spec: ProcessSpec) -> Mirror | None:
            return runtime.mirror(spec, generation)

        self._logs = WorkerLogs(process.spec, mirror, runtime.report)

    async def attend(self) -> NoReturn:
        """Take the census and mirror their logs, for as long as the generation lives."""
        async with anyio.create_task_group() as tasks:
            if self._process.spec.worker_logs:
                tasks.start_soon(self._logs.run)
            await self._take_the_census()
            await anyio.sleep_forever()
        raise AssertionError

    async def finish(self, seconds: float) -> None:
        """Mirror what is left of their logs; what has not been read after ``seconds`` is told."""
        await self._logs.finish(seconds)

    async def _take_the_census(self) -> None:
        """Note who is which rank: when a worker is dead, its launcher may tell only its pid."""
        watched: set[Pid] = set()
        while self._process.status is None and len(self.ranks) < self._testimony.workers:
            with suppress(Unavailable):  # no room for a thread now
                self.ranks |= await in_thread(self._process.ranks_of_workers)
            for worker in self._process.workers() - watched:
                watched.add(worker)
                self._runtime.guardian.watch_worker(worker)
            await self._runtime.clock.sleep(CENSUS_SECONDS)
