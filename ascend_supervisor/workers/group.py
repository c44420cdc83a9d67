"""The processes on this server that live and die together, in one generation."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from typing import NoReturn

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from ascend_supervisor.events.generations import ProcessExited, RanksEnded
from ascend_supervisor.life import Life, Living
from ascend_supervisor.outcome import Completed, Crashed, ExitStatus, Failure, Fault, StopSignal
from ascend_supervisor.output.rank_output import RankOutput
from ascend_supervisor.process_spec import ProcessSpec
from ascend_supervisor.processes.ownership import Known
from ascend_supervisor.processes.pid import Pid
from ascend_supervisor.tasks.clock import whole_second
from ascend_supervisor.workers.descendants import (
    Kin,
    LaunchedWorkers,
    NestedRanks,
    left_by_command,
    remaining,
)
from ascend_supervisor.workers.late_imports import compile_late, import_late
from ascend_supervisor.workers.memory_watch import MemoryWatch
from ascend_supervisor.workers.process import Process, start
from ascend_supervisor.workers.runtime import Runtime
from ascend_supervisor.workers.telling import OrderedSignal, has_order, kill_first
from ascend_supervisor.workers.verdict import Verdict

SILENT_SECONDS = 0.25
"""Ranks that fail in the same way end within this time of each other."""
LOOK_AGAIN_SECONDS = 0.05
"""A group member that is not our child causes no event when it dies."""


class WorkerGroup:
    """Its pumps and watchers run in the tasks that ``start`` is given.

    ``stop_so_far`` returns the signal to us that asks for the end, if one has come.
    """

    def __init__(
        self, life: Life, runtime: Runtime, stop_so_far: Callable[[], StopSignal | None]
    ) -> None:
        self.generation = life.generation
        self._life = life
        self._runtime = runtime
        self._processes: list[Process] = []
        self._kin = Kin(self._processes, runtime.children, runtime.ownership)
        self._launched: list[LaunchedWorkers] = []
        self._memory = MemoryWatch(runtime.memory, runtime.clock, self._processes)
        self._verdict = Verdict(
            life.plan.specs, life.generation, stop_so_far, self._memory, runtime.clock
        )
        self._nested = NestedRanks(self._processes, runtime.children, runtime.clock)
        self._noted: set[Process] = set()
        self._dismissed: set[Process] = set()
        self._unasked: set[Process] = set()
        self._untold: ProcessExited | None = None
        self._waiting: set[Pid] = set()
        self._telling: OrderedSignal | None = None

    async def start(self, tasks: TaskGroup) -> None:
        """Start all, in order; signals are handled between two of them. Raises a Refusal.

        To be called after ``prepare``.
        """
        specs, outputs = self._life.plan.specs, self._runtime.outputs
        begun = [outputs.begin(spec, self.generation) for spec in specs]
        for spec, output in zip(specs, begun, strict=True):
            await self._start(spec, output, tasks)
            await anyio.lowlevel.checkpoint()
        if self._runtime.standbys is not None:
            self._runtime.standbys.go_on()
        tasks.start_soon(self._watch_memory)
        tasks.start_soon(self._nested.look_early)
        with self._runtime.children.spare_descriptor():
            import_late()
        tasks.start_soon(compile_late)

    async def _start(self, spec: ProcessSpec, output: RankOutput, tasks: TaskGroup) -> None:
        runtime = self._runtime
        now, standbys = runtime.clock.elapsed(), runtime.standbys
        process = await start(spec, output, runtime.children, runtime.environ, now, standbys)
        self._processes.append(process)
        launched = LaunchedWorkers(process, runtime)
        activity, of_workers = output.activity, output.activity_of_workers
        living = Living(spec, process.pid, activity, of_workers, launched.ranks, process.is_warm)
        self._life.processes.append(living)
        runtime.guardian.watch(process.identity)
        tasks.start_soon(self._watch, process)
        tasks.start_soon(output.run)
        if spec.workers:
            self._launched.append(launched)
            tasks.start_soon(launched.take_the_census)
        runtime.report(process.started_event(self.generation))

    async def verdict(self) -> Completed | Crashed | Fault:
        """Wait until a process has failed, or all significant ones have ended with 0."""
        return await self._verdict.reached()

    @property
    def success(self) -> Completed | None:
        """That of all ranks, if they had ended with 0 when they were to be told to stop."""
        return self._verdict.success

    def send(self, number: int) -> bool:
        """Signal the ranks that are left, but not processes that serve them and have no handler.

        Returns whether any process got it.
        """
        return sum(process.send(number) for process in self._ranks) > 0

    def stop_with(self, number: int, head_start: float) -> None:
        """Tell the ranks to stop, in order (OrderedSignal); exits from now on are consequences.

        ``empty`` tells those that have to wait for others, and ends processes that serve the ranks,
        such as a scheduler, after the ranks, which may need them to save a checkpoint.
        """
        self._verdict.stop()
        self._kin.note()
        self._kin.take_in_ranks()
        ordered = [one for one in self._ranks if has_order(one.spec, number)]
        runtime = self._runtime
        outputs, children = self._kin.known.pipes, runtime.children
        self._telling = OrderedSignal(number, ordered, head_start, outputs, children, runtime.clock)
        self._telling.begin()
        for process in self._ranks:
            if process not in ordered:
                process.send(number)
        self.tell_failure()

    async def kill(self, seconds: float) -> None:
        """Kill all but what may only wait for the end of the others: the sweep ends that.

        What we have started has so many ``seconds`` to end.
        """
        self._verdict.stop()
        self._kin.note()
        self._kin.take_in_ranks()
        self._kill(self._processes)
        self.tell_failure()
        with anyio.move_on_after(seconds):
            for process in self._processes:
                await process.ended()
        self.tell_failure()

    def _kill(self, processes: Sequence[Process]) -> None:
        """Note what may only wait for the end of the others, and kill the rest."""
        try:
            with self._runtime.children.spare_descriptor():
                self._waiting |= self._kin.waiting_elsewhere() | kill_first(processes)
        except OSError:
            for process in processes:
                process.send(signal.SIGKILL)

    def ended_by_itself(self, pid: int) -> bool:
        """Whether it is one that we have started, and that SIGKILL did not end."""
        known = {process.pid: process.status for process in self._processes}
        status = known.get(pid)
        return status is not None and status.signal != signal.SIGKILL

    def tell_failure(self) -> None:
        """Report the first failure, if that is still to be done: before anything is waited for.

        ``stop_with`` does it after the signal: the threads that write an event compete with us.
        """
        untold, self._untold = self._untold, None
        if untold is not None:
            self._runtime.report(untold)

    def kill_ranks(self, ranks: frozenset[int]) -> None:
        """Kill these ranks, and a launcher with all of its workers."""
        chosen = [one for one in self._ranks if one.spec.rank is None or one.spec.rank in ranks]
        self._kill(chosen)

    def _dismiss(self) -> None:
        for process in self._processes:
            if not process.spec.significant and process not in self._dismissed:
                self._dismissed.add(process)
                process.send(signal.SIGTERM)

    @property
    def _ranks(self) -> Sequence[Process]:
        return [process for process in self._processes if process.spec.significant]

    @property
    def _ranks_of_workers(self) -> dict[int, int]:
        """The ranks of launchers' workers, by pid."""
        return {pid: rank for one in self._launched for pid, rank in one.ranks.items()}

    @property
    def pids(self) -> frozenset[int]:
        """The pids of the processes that were started, living or dead."""
        return frozenset(process.pid for process in self._processes)

    @property
    def known(self) -> Known:
        """The processes that were started, those seen below them, their pipes and groups."""
        return replace(self._kin.known, waiting=frozenset(self._waiting))

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left in any process group."""
        self._kin.take_in_ranks()
        return all(process.group_is_empty for process in self._processes)

    @property
    def has_ended(self) -> bool:
        """Whether every rank has ended, even if helpers are left."""
        self._kin.take_in_ranks()
        return all(process.ranks_have_ended for process in self._ranks)

    async def ended(self) -> None:
        """Return when every rank has ended."""
        for process in self._ranks:
            await process.ended()
        while not self.has_ended:
            await self._look_again()

    async def silent(self) -> None:
        """Return when every rank has ended, or none has ended for a moment."""
        while len(ended := {one for one in self._ranks if one.status}) > len(self._unasked):
            self._unasked = ended
            if len(ended) == len(self._ranks):
                return
            await self._runtime.clock.sleep(SILENT_SECONDS)

    async def empty(self) -> None:
        """Return as soon as nothing is left in any process group."""
        while not self.is_empty:
            if self._telling is not None:
                self._telling.go_on()
            if all(process.group_is_empty for process in self._ranks):
                self._dismiss()
            await self._look_again()

    async def _look_again(self) -> None:
        with anyio.move_on_after(LOOK_AGAIN_SECONDS):
            await self._runtime.children.change()

    async def remaining(self) -> dict[int, str]:
        """Descriptions of the processes that still run, each after the rank that it belongs to.

        They are by pid; zombies are among them.
        """
        return await remaining(self._processes, self._ranks_of_workers, self._runtime.children)

    async def left_by_command(self) -> tuple[str, ...]:
        """Descriptions of what lives although the command that leads ranks has ended."""
        return await left_by_command(self._ranks, self._runtime.children)

    async def last_words(self, seconds: float) -> None:
        """Mirror the rest of the logs that workers wrote themselves.

        Output that was not read after ``seconds`` is reported.
        """
        for process in self._processes:
            await process.output.last_words(seconds)

    def finish(self) -> None:
        """After the tasks have ended: report remaining exits; drain and close the pipes."""
        for process in self._processes:
            if process.status is not None:
                self._note_end(process, process.status)
            process.output.finish()
        self.tell_failure()

    @property
    def unheeded(self) -> str:
        """After a success: the deaths that the statuses, all 0, do not show."""
        from ascend_supervisor.workers.examination import unheeded_deaths  # noqa: PLC0415  (see late_imports)

        return unheeded_deaths((one.spec, one.output.last_lines) for one in self._ranks)

    async def failure(self) -> Failure | None:
        """The first failure, after all processes have ended; a worker's if its launcher says so."""
        death = self._verdict.death
        if death is None:
            return None
        with self._runtime.children.spare_descriptor():
            from ascend_supervisor.evidence.blame import Other  # noqa: PLC0415  (see late_imports)
            from ascend_supervisor.workers.examination import (  # noqa: PLC0415
                Circumstances,
                examination,
            )

        start = self._life.plan.start
        known = Circumstances(
            heard=[line for one in self._processes for line in one.output.last_lines],
            ranks=self._ranks_of_workers,
            local_ranks=start.local_ranks,
            environ=self._runtime.environ,
            age=self._runtime.clock.elapsed() - death.process.started_at,
            nested=self.nested,
            others=[
                Other(one.spec.rank, one.status, one.output.last_lines, one in self._unasked)
                for one in self._processes
                if one is not death.process and one.spec.rank is not None and one.status
            ],
            of_job=start.holds_all_ranks,
            is_alone=start.found.table.world_size == 1 and death.process.spec.rank is not None,
        )
        return await examination(death, known)

    async def _watch_memory(self) -> NoReturn:
        """Look once a second while ranks write."""
        seen = 0
        while True:
            await whole_second()
            if (now := sum(one.output.activity.bytes for one in self._processes)) != seen:
                seen = now
                self._memory.look()

    def look_for_nested_ranks(self) -> None:
        """To be called when the first reason to end is known, and before anything is signalled."""
        self._nested.look()

    @property
    def nested(self) -> str:
        """A sentence if its ranks have started ranks; else empty."""
        return self._nested.sentence

    async def _watch(self, process: Process) -> None:
        self._note_end(process, await process.ended())

    def _note_end(self, process: Process, status: ExitStatus) -> None:
        if process in self._noted:
            return
        self._noted.add(process)
        process.note_end()
        self._runtime.guardian.ended(process.identity)
        process.output.drain()
        process.output.activity.has_ended = True
        self.tell_failure()
        is_first = self._verdict.death is None
        event = self._verdict.note_end(process, status)
        if is_first and self._verdict.death is not None:
            self.look_for_nested_ranks()
            self._untold = event
        else:
            self._runtime.report(event)
        awaited = self._verdict.awaited
        if awaited is not None and process.spec.significant:
            self._runtime.report(RanksEnded(self.generation, awaited))
