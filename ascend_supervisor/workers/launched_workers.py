"""The workers that a launcher starts, and their ranks."""

from __future__ import annotations

from contextlib import suppress

from ascend_supervisor.processes.pid import Pid
from ascend_supervisor.scarcity import NoThread
from ascend_supervisor.tasks.threads import in_thread
from ascend_supervisor.workers.process import Process
from ascend_supervisor.workers.runtime import Runtime

CENSUS_SECONDS = 0.1
"""How often to look for workers, until all of them were seen."""


class LaunchedWorkers:
    """The workers of one launcher, ``process``; ``ranks`` maps their pids to ranks."""

    def __init__(self, process: Process, runtime: Runtime) -> None:
        self.ranks: dict[int, int] = {}
        self._process = process
        self._runtime = runtime

    async def take_the_census(self) -> None:
        """Note the workers' ranks: for a dead worker, its launcher may report only the pid."""
        watched: set[Pid] = set()
        while self._process.status is None and len(self.ranks) < self._process.spec.workers:
            with suppress(NoThread):
                self.ranks |= await in_thread(self._process.ranks_of_workers)
            for worker in self._process.workers() - watched:
                watched.add(worker)
                self._runtime.guardian.watch_worker(worker)
            await self._runtime.clock.sleep(CENSUS_SECONDS)
