"""The processes on this server that live and die together, in one generation."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import anyio
from anyio.abc import TaskGroup

from ascend_supervisor.errors import UNAVAILABLE, Unavailable
from ascend_supervisor.events import ProcessExited, ProcessStarted
from ascend_supervisor.launchers.spec import ProcessSpec
from ascend_supervisor.life import Activity, Life, Living
from ascend_supervisor.outcome import Completed, Crashed, ExitStatus, Failure, Fault
from ascend_supervisor.output.pump import Pump
from ascend_supervisor.processes.ownership import Known
from ascend_supervisor.processes.pid import Pid
from ascend_supervisor.processes.proc import description
from ascend_supervisor.tasks.threads import aside, in_thread
from ascend_supervisor.workers.failure import examined
from ascend_supervisor.workers.launched import LaunchedWorkers
from ascend_supervisor.workers.process import Process, start
from ascend_supervisor.workers.runtime import Runtime

ERROR_FILE_SECONDS = 1.0
LOOK_AGAIN_SECONDS = 0.05
"""A group member that is not our child makes no event when it dies."""


class WorkerGroup:
    """Its pumps and watchers run in the tasks that ``start`` is given."""

    def __init__(self, life: Life, runtime: Runtime) -> None:
        self.generation = life.generation
        self._life = life
        self.failure: Failure | None = None
        self._runtime = runtime
        self._processes: list[Process] = []
        self._kin: set[Pid] = set()
        self._noted: set[Process] = set()
        self._failed: Process | None = None
        self._launched: list[LaunchedWorkers] = []
        self._dismissed: set[tuple[Process, int]] = set()
        self._expected = 0
        self._doubt: str | None = None
        self._decided = anyio.Event()
        self._stopping = False
        self._oom_kills = runtime.oom_kills()

    async def start(self, specs: Sequence[ProcessSpec], tasks: TaskGroup) -> None:
        """Start all, in order; a signal is heard between two of them. Raises a Refusal.

        What they need has been prepared.
        """
        self._expected = sum(spec.significant for spec in specs)
        logs = [self._runtime.logs.begin(spec, self.generation) for spec in specs]
        for spec, log in zip(specs, logs, strict=True):
            mirror = None if spec.worker_logs else self._runtime.mirror(spec, self.generation)
            now = self._runtime.clock.now()
            activity = Activity(now)
            new_pump = partial(Pump, log, mirror, partial(self._note, activity))
            process = start(spec, new_pump, self._runtime.children, self._runtime.environ, now)
            self._processes.append(process)
            self._life.processes.append(Living(spec, process.pid, activity))
            if process.identity is not None:
                self._runtime.guardian.watch(process.identity)
            tasks.start_soon(self._watch, process)
            tasks.start_soon(process.pump.run)
            if spec.testimony is not None:
                launched = LaunchedWorkers(process, spec.testimony, self.generation, self._runtime)
                self._launched.append(launched)
                tasks.start_soon(launched.attend)
            self._runtime.report(
                ProcessStarted(
                    spec.rank,
                    spec.local_rank,
                    self.generation,
                    process.pid,
                    str(log.path),
                    spec.program,
                )
            )
            await anyio.lowlevel.checkpoint()

    def _note(self, activity: Activity, size: int) -> None:
        activity.note(size, self._runtime.clock.now())

    async def verdict(self) -> Completed | Crashed | Fault:
        """Wait until a process has failed, or all significant ones have ended with 0."""
        await self._decided.wait()
        if self.failure is not None:
            return Crashed(self.failure)
        return Completed() if self._doubt is None else Fault(self._doubt, UNAVAILABLE)

    def send(self, number: int) -> bool:
        """Signal the ranks that are left; what only serves them has no handler for it.

        Gives whether somebody got it.
        """
        return sum(process.send(number) for process in self._ranks) > 0

    def stop_with(self, number: int) -> None:
        """Signal the ranks; what ends from now on ends because of it.

        What serves them, such as a scheduler, is ended by ``empty`` when they have ended: they may
        need it to save what they have. SIGKILL is for all at once.
        """
        self._stopping = True
        self._note_kin()
        self.send(number)
        if number == signal.SIGKILL:
            self._dismiss(number)

    def _dismiss(self, number: int = signal.SIGTERM) -> None:
        for process in self._processes:
            if not process.spec.significant and (process, number) not in self._dismissed:
                self._dismissed.add((process, number))
                process.send(number)

    @property
    def _ranks(self) -> list[Process]:
        return [process for process in self._processes if process.spec.significant]

    @property
    def pids(self) -> frozenset[int]:
        """The processes that were started, living or dead."""
        return frozenset(process.pid for process in self._processes)

    @property
    def known(self) -> Known:
        """Those, what was seen to hang below them, and the pipes they were given."""
        started = {pid for process in self._processes if (pid := process.identity) is not None}
        pipes = {process.pump.pipe for process in self._processes}
        return Known(frozenset(started | self._kin), frozenset(pipes))

    def _note_kin(self) -> None:
        """While its parent lives, a process shows whose it is; as an orphan it may hide it."""
        if self._runtime.ownership.takes_in_strangers:
            with suppress(OSError), self._runtime.children.spare_descriptor():
                self._kin.update(self._runtime.ownership.ours(self.known))

    @property
    def is_empty(self) -> bool:
        return all(process.group_is_empty for process in self._processes)

    async def remaining(self) -> tuple[str, ...]:
        """Descriptions of the processes that still run."""
        pids = [
            process.pid
            for process in self._processes
            if process.status is None or not process.group_is_empty
        ]
        return await aside(lambda: tuple(map(description, pids)))

    @property
    def has_ended(self) -> bool:
        """Whether every rank that was started has ended, whatever it left behind."""
        return all(process.status is not None for process in self._ranks)

    async def ended(self) -> None:
        """Return when that is so."""
        for process in self._ranks:
            await process.ended()

    async def empty(self) -> None:
        """Return in the moment in which nothing is left in any process group."""
        while not self.is_empty:
            if all(process.group_is_empty for process in self._ranks):
                self._dismiss()
            with anyio.move_on_after(LOOK_AGAIN_SECONDS):
                await self._runtime.children.change()

    async def last_words(self, seconds: float) -> None:
        """Mirror what is left of the logs that workers wrote themselves.

        What has not been read after ``seconds`` is told.
        """
        for launched in self._launched:
            await launched.finish(seconds)

    def finish(self) -> None:
        """When the tasks are over: tell each end that was not told, close the pipes, emptied."""
        for process in self._processes:
            if process.status is not None:
                self._note_end(process, process.status)
                self._tell_guardian(process)
            process.pump.finish()

    async def told_failure(self) -> Failure | None:
        """The failure with all that is known of it; a worker's where its launcher tells of one."""
        if self.failure is None or self._failed is None:
            return None
        lines = self._failed.pump.last_lines
        heard = [line for one in self._processes for line in one.pump.last_lines]
        ranks = {pid: rank for one in self._launched for pid, rank in one.ranks.items()}
        look = partial(examined, self.failure, self._failed.spec, lines, heard, ranks)
        with anyio.move_on_after(ERROR_FILE_SECONDS), suppress(Unavailable):
            return await in_thread(look)
        return self.failure

    async def _watch(self, process: Process) -> None:
        self._note_end(process, await process.ended())

    def _note_end(self, process: Process, status: ExitStatus) -> None:
        if process in self._noted:
            return
        self._noted.add(process)
        process.note_end()
        self._tell_guardian(process)
        process.pump.drain()
        runtime = self._runtime.clock.now() - process.started_at
        oom = self._oom_killed(status)
        is_over = self._stopping or self._decided.is_set()
        first = not status.ok and self.failure is None and not is_over
        if first:
            self._failed = process
            self.failure = self._failure(process, status, runtime, oom)
        spec = process.spec
        if spec.significant and status.ok:
            self._expected -= 1
            if spec.testimony is not None and not self._stopping:
                self._doubt = self._doubt or spec.testimony.false_success(process.pump.last_lines)
        if self.failure is not None or self._doubt is not None or self._expected == 0:
            self._decided.set()
        self._runtime.report(
            ProcessExited(
                spec.rank,
                spec.local_rank,
                self.generation,
                process.pid,
                status.status,
                status.signal_name,
                round(runtime, 6),
                first,
                oom,
                spec.program,
            )
        )

    def _tell_guardian(self, process: Process) -> None:
        if process.identity is not None:
            self._runtime.guardian.ended(process.identity)

    def _failure(
        self, process: Process, status: ExitStatus, runtime: float, oom: bool | None
    ) -> Failure:
        return Failure(
            name=process.spec.name,
            rank=process.spec.rank,
            generation=self.generation,
            status=status,
            runtime_seconds=runtime,
            ended_at=process.started_at + runtime,
            oom_killed=oom,
            log=str(process.spec.log),
            last_lines=process.pump.last_lines,
        )

    def _oom_killed(self, status: ExitStatus) -> bool | None:
        """True if the cgroup's OOM counter rose and the SIGKILL was not ours; None if unknown."""
        if status.signal != signal.SIGKILL or self._stopping:
            return False
        now = self._runtime.oom_kills()
        if now is None or self._oom_kills is None:
            return None
        return now > self._oom_kills
