"""What the ends of its processes mean for a generation: it is complete, or it must be ended."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence

import anyio
from msgspec import Struct

from ascend_supervisor.errors import UNAVAILABLE
from ascend_supervisor.events.generations import ProcessExited
from ascend_supervisor.outcome import Completed, Crashed, ExitStatus, Failure, Fault, StopSignal
from ascend_supervisor.process_spec import ProcessSpec
from ascend_supervisor.tasks.clock import Clock
from ascend_supervisor.workers.memory_watch import MemoryWatch
from ascend_supervisor.workers.process import Process


class Death(Struct, frozen=True):
    """The end of the process that failed first.

    ``at`` is in seconds of the clock; ``runtime_seconds`` includes time while we were stopped.
    """

    process: Process
    generation: int
    status: ExitStatus
    at: float
    runtime_seconds: float
    oom_killed: bool | None
    oom_kills: tuple[int, int] | None = None
    memory: str | None = None

    @property
    def failure(self) -> Failure:
        """What can be told at once, without a look at a file."""
        spec, lines = self.process.spec, self.process.output.last_lines
        return Failure(
            name=spec.name,
            rank=spec.rank,
            generation=self.generation,
            status=self.status,
            runtime_seconds=self.runtime_seconds,
            ended_at=self.at,
            oom_killed=self.oom_killed,
            oom_kills=self.oom_kills,
            memory=self.memory,
            log=str(spec.log),
            last_lines=lines,
            reason=spec.explanation.reason(lines, lines) if spec.explanation else None,
            is_shared=spec.rank is None and spec.speaks_for_ranks,
        )


class Verdict:
    """Complete when all significant processes have ended with 0, failed at the first failure.

    ``stop_so_far`` returns the signal to us that asks for the end, if one has come.
    """

    def __init__(
        self,
        specs: Sequence[ProcessSpec],
        generation: int,
        stop_so_far: Callable[[], StopSignal | None],
        memory: MemoryWatch,
        clock: Clock,
    ) -> None:
        self.death: Death | None = None
        """The first failure before the group was told to stop."""
        self.success: Completed | None = None
        """Set when the group is told to stop, if all significant processes had ended with 0."""
        self._generation = generation
        self._stop_so_far = stop_so_far
        self._memory = memory
        self._clock = clock
        self._command = next((one.name for one in specs if one.leads_ranks), None)
        self._expected = [spec for spec in specs if spec.completes]
        """Those that have not ended with 0 yet."""
        self._doubt: str | None = None
        self._is_stopping = False
        self._decided = anyio.Event()

    async def reached(self) -> Completed | Crashed | Fault:
        """Wait until a process has failed, or all significant ones have ended with 0."""
        await self._decided.wait()
        if self.death is not None:
            return Crashed(self.death.failure)
        if self._doubt is not None:
            return Fault(self._doubt, UNAVAILABLE)
        return self._completed

    @property
    def awaited(self) -> str | None:
        """What is waited for although all ranks here have ended with 0: it outlasts them."""
        living = [spec.name for spec in self._expected if spec.outlasts_ranks]
        only = len(living) == len(self._expected) and not (self._is_stopping or self.death)
        return living[0] if living and only else None

    @property
    def _completed(self) -> Completed:
        return Completed() if self._command is None else Completed(self._command)

    def stop(self) -> None:
        """The group is told to stop: exits from now on are consequences."""
        has_succeeded = not self._expected and self._doubt is None
        if has_succeeded and not self._is_stopping:
            self.success = self._completed
        self._is_stopping = True

    def note_end(self, process: Process, status: ExitStatus) -> ProcessExited:
        """Take an end into account, once for each process; returns the event that tells of it."""
        now = self._clock.now()
        runtime = self._clock.elapsed() - process.started_at
        oom = self._oom_killed(status)
        is_first = False
        # The ranks here have succeeded: what fails now, fails for ranks on other servers.
        is_enough = status.ok or self.awaited is not None
        if not (is_enough or self._is_stopping or self._decided.is_set()):
            others = None if oom else self._memory.kills()
            memory = self._memory.shortage(process, is_victim=oom is not False)
            self.death = Death(process, self._generation, status, now, runtime, oom, others, memory)
            stop = self._stop_so_far()
            is_first = stop is None or not stop.explains(self.death.failure)
        if process.spec.completes and is_enough:
            self._note_success(process)
        if self.death is not None or self._doubt is not None or not self._expected:
            self._decided.set()
        return ProcessExited(
            process.spec.rank,
            process.spec.local_rank,
            self._generation,
            process.pid,
            status.status,
            status.signal_name,
            round(runtime, 6),
            is_first,
            oom,
            process.spec.program,
        )

    def _note_success(self, process: Process) -> None:
        self._expected = [spec for spec in self._expected if spec is not process.spec]
        testimony = process.spec.testimony
        if testimony is not None and not self._is_stopping:
            self._doubt = self._doubt or testimony.false_success(process.output.last_lines)

    def _oom_killed(self, status: ExitStatus) -> bool | None:
        """Whether the kernel did it because memory ran out; None if unknown."""
        if status.signal != signal.SIGKILL or self._is_stopping:
            return False
        return self._memory.has_killed()
