"""All output of one process, from its pipe and its workers' logs, from start to end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import anyio
from msgspec import Struct

from ascend_supervisor.events import Report
from ascend_supervisor.output.last_lines import Activity
from ascend_supervisor.output.launcher_logs import WorkerLogs
from ascend_supervisor.output.mirror import Mirror
from ascend_supervisor.output.pump import Pump, Sink
from ascend_supervisor.output.rank_logs import RankLogs
from ascend_supervisor.process_spec import ProcessSpec
from ascend_supervisor.tasks.clock import Clock


class RankOutput:
    """Start the process in ``write_end``, then ``run``.

    When it has ended, ``drain``; when ``run`` is over, ``last_words``, then ``finish``.
    """

    def __init__(self, sink: Sink, worker_logs: WorkerLogs) -> None:
        self._sink = sink
        self._pump = Pump(sink)
        self._worker_logs = worker_logs

    def write_end(self) -> AbstractContextManager[int]:
        """The write end for the process, which holds the only copy afterwards; raises OSError.

        If the process is not started, there is nothing to ``finish``.
        """
        return self._pump.write_end()

    @property
    def pipe(self) -> str:
        """The name of its pipe in /proc/PID/fd of the processes that hold an end."""
        return self._pump.pipe

    @property
    def activity(self) -> Activity:
        return self._sink.activity

    @property
    def activity_of_workers(self) -> tuple[Activity, ...]:
        """Of workers that write logs of their own, in the order of ``ProcessSpec.worker_logs``."""
        return self._worker_logs.activities

    @property
    def last_lines(self) -> tuple[str, ...]:
        """The last lines from the pipe so far."""
        return self._sink.last_lines

    async def run(self) -> None:
        """Pass on new output; to be cancelled before ``finish``."""
        async with anyio.create_task_group() as tasks:
            if self.activity_of_workers:
                tasks.start_soon(self._worker_logs.run)
            await self._pump.run()

    def drain(self) -> None:
        """Read what is in the pipe now: all output of a process that is dead."""
        self._pump.drain()

    async def last_words(self, seconds: float) -> None:
        """Mirror what is left of the workers' logs.

        Output that was not read after ``seconds`` is reported.
        """
        await self._worker_logs.finish(seconds)

    def finish(self) -> None:
        """Drain and close the pipe."""
        self._pump.finish()


class Outputs(Struct, frozen=True):
    """Of all processes. ``mirror`` returns a process's Mirror in a generation, or None."""

    logs: RankLogs
    mirror: Callable[[ProcessSpec, int], Mirror | None]
    clock: Clock
    report: Report

    def begin(self, spec: ProcessSpec, generation: int) -> RankOutput:
        """The output of ``spec``; its open log gets a line that ``generation`` begins."""
        log = self.logs.begin(spec, generation)

        def mirror(spec: ProcessSpec) -> Mirror | None:
            return self.mirror(spec, generation)

        sink = Sink(log, None if spec.worker_logs else mirror(spec), self.clock)
        return RankOutput(sink, WorkerLogs(spec, mirror, self.clock, self.report))
