"""The processes on this server that live and die together, in one generation."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from contextlib import suppress

import anyio
from anyio.abc import TaskGroup

from ascend_supervisor.errors import UNAVAILABLE
from ascend_supervisor.events.generations import ProcessExited, ProcessStarted
from ascend_supervisor.launchers.process_spec import ProcessSpec
from ascend_supervisor.life import Life, Living
from ascend_supervisor.outcome import Completed, Crashed, ExitStatus, Failure, Fault
from ascend_supervisor.processes.ownership import Known
from ascend_supervisor.processes.pid import Pid
from ascend_supervisor.processes.proc import description, stat
from ascend_supervisor.tasks.threads import aside
from ascend_supervisor.workers.examination import Circumstances, examination
from ascend_supervisor.workers.failure import Death
from ascend_supervisor.workers.launched_workers import LaunchedWorkers
from ascend_supervisor.workers.process import Process, start
from ascend_supervisor.workers.runtime import Runtime

LOOK_AGAIN_SECONDS = 0.05
"""A group member that is not our child causes no event when it dies."""


class WorkerGroup:
    """Its pumps and watchers run in the tasks that ``start`` is given.

    ``is_explained`` returns whether a signal to us explains a failure.
    """

    def __init__(
        self, life: Life, runtime: Runtime, is_explained: Callable[[Failure], bool]
    ) -> None:
        self.generation = life.generation
        self._life = life
        self._runtime = runtime
        self._is_explained = is_explained
        self._processes: list[Process] = []
        self._kin: set[Pid] = set()
        self._noted: set[Process] = set()
        self._death: Death | None = None
        self._launched: list[LaunchedWorkers] = []
        self._dismissed: set[tuple[Process, int]] = set()
        self._expected = 0
        self._doubt: str | None = None
        self._decided = anyio.Event()
        self._stopping = False
        self._oom_kills = runtime.oom_kills()

    async def start(self, specs: Sequence[ProcessSpec], tasks: TaskGroup) -> None:
        """Start all, in order; signals are handled between two of them. Raises a Refusal.

        To be called after ``prepare``.
        """
        self._expected = sum(spec.significant for spec in specs)
        runtime = self._runtime
        outputs = [runtime.outputs.begin(spec, self.generation) for spec in specs]
        for spec, output in zip(specs, outputs, strict=True):
            process = start(
                spec, output, runtime.children, runtime.environ, runtime.clock.elapsed()
            )
            self._processes.append(process)
            launched = LaunchedWorkers(process, runtime)
            self._life.processes.append(
                Living(
                    spec,
                    process.pid,
                    output.activity,
                    output.activity_of_workers,
                    launched.ranks,
                )
            )
            if process.identity is not None:
                runtime.guardian.watch(process.identity)
            tasks.start_soon(self._watch, process)
            tasks.start_soon(output.run)
            if spec.workers:
                self._launched.append(launched)
                tasks.start_soon(launched.take_the_census)
            runtime.report(
                ProcessStarted(
                    spec.rank,
                    spec.local_rank,
                    self.generation,
                    process.pid,
                    str(spec.log),
                    spec.program,
                )
            )
            await anyio.lowlevel.checkpoint()

    async def verdict(self) -> Completed | Crashed | Fault:
        """Wait until a process has failed, or all significant ones have ended with 0."""
        await self._decided.wait()
        if self._death is not None:
            return Crashed(self._death.failure)
        if self._doubt is not None:
            return Fault(self._doubt, UNAVAILABLE)
        command = next((one.spec.name for one in self._ranks if one.spec.leads_ranks), None)
        return Completed() if command is None else Completed(command)

    def send(self, number: int) -> bool:
        """Signal the ranks that are left, but not processes that serve them and have no handler.

        Returns whether any process got it.
        """
        return sum(process.send(number) for process in self._ranks) > 0

    def stop_with(self, number: int) -> None:
        """Signal the ranks; exits from now on are consequences.

        ``empty`` ends processes that serve the ranks, such as a scheduler, after the ranks, which
        may need them to save a checkpoint. SIGKILL goes to all at once.
        """
        self._stopping = True
        self._note_kin()
        self._take_in_ranks()
        self.send(number)
        if number == signal.SIGKILL:
            self._dismiss(number)

    def kill_ranks(self, ranks: frozenset[int]) -> None:
        """Kill these ranks, and a launcher with all of its workers."""
        for process in self._ranks:
            if process.spec.rank is None or process.spec.rank in ranks:
                process.send(signal.SIGKILL)

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
        """The pids of the processes that were started, living or dead."""
        return frozenset(process.pid for process in self._processes)

    @property
    def known(self) -> Known:
        """The processes that were started, those seen below them, and their pipes."""
        started = {pid for process in self._processes if (pid := process.identity) is not None}
        pipes = {process.output.pipe for process in self._processes}
        return Known(frozenset(started | self._kin), frozenset(pipes))

    def _note_kin(self) -> None:
        """Note descendants while their parents are alive: an orphan may not show whose it is."""
        if self._runtime.ownership.takes_in_strangers:
            with suppress(OSError), self._runtime.children.spare_descriptor():
                self._kin.update(self._descendants())

    def _take_in_ranks(self) -> None:
        """Find the ranks of a command that leads them, in whatever session they are.

        A plan has at most one such command, and nothing beside it, so all that is ours is its kin.
        """
        for process in self._processes:
            if process.spec.leads_ranks:
                with suppress(OSError), self._runtime.children.spare_descriptor():
                    process.take_in(self._descendants())

    def _descendants(self) -> list[Pid]:
        """All that is ours, without py-spy and the like; raises OSError at EMFILE and the like.

        Such a program leads a session of its own, as everything does that we start.
        """
        ours = self._runtime.ownership.ours(self.known)
        programs = self._runtime.children.started - self.pids
        return [pid for pid in ours if not programs or _session(pid) not in programs]

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left in any process group."""
        self._take_in_ranks()
        return all(process.group_is_empty for process in self._processes)

    async def left_by_command(self) -> tuple[str, ...]:
        """Descriptions of what lives although the command that leads ranks has ended."""
        with suppress(OSError), self._runtime.children.spare_descriptor():
            ended = [one for one in self._ranks if one.spec.leads_ranks and one.status is not None]
            left = [pid.number for process in ended for pid in process.left_behind]
            return await aside(lambda: tuple(map(description, left)))
        return ()

    async def remaining(self) -> tuple[str, ...]:
        """Descriptions of the processes that still run, each after the rank that it belongs to."""
        owners = {one.pid: one.spec.name for one in self._processes if one.status is None}
        with suppress(OSError), self._runtime.children.spare_descriptor():
            for one in self._processes:
                owners |= {pid.number: one.spec.name for pid in one.left_behind}
        ranks = {pid: f"rank {rank}" for one in self._launched for pid, rank in one.ranks.items()}
        owners |= {pid: ranks[pid] for pid in owners.keys() & ranks.keys()}
        return await aside(lambda: tuple(f"{owners[pid]}: {description(pid)}" for pid in owners))

    @property
    def has_ended(self) -> bool:
        """Whether every rank has ended, even if helpers are left."""
        self._take_in_ranks()
        return all(process.ranks_have_ended for process in self._ranks)

    async def ended(self) -> None:
        """Return when every rank has ended."""
        for process in self._ranks:
            await process.ended()
        while not self.has_ended:
            await self._look_again()

    async def empty(self) -> None:
        """Return as soon as nothing is left in any process group."""
        while not self.is_empty:
            if all(process.group_is_empty for process in self._ranks):
                self._dismiss()
            await self._look_again()

    async def _look_again(self) -> None:
        with anyio.move_on_after(LOOK_AGAIN_SECONDS):
            await self._runtime.children.change()

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
                self._tell_guardian(process)
            process.output.finish()

    async def failure(self) -> Failure | None:
        """The first failure, after all processes have ended; a worker's if its launcher says so."""
        if self._death is None:
            return None
        known = Circumstances(
            heard=[line for one in self._processes for line in one.output.last_lines],
            ranks={pid: rank for one in self._launched for pid, rank in one.ranks.items()},
            environ=self._runtime.environ,
            age=self._runtime.clock.elapsed() - self._death.process.started_at,
        )
        return await examination(self._death, known)

    async def _watch(self, process: Process) -> None:
        self._note_end(process, await process.ended())

    def _note_end(self, process: Process, status: ExitStatus) -> None:
        if process in self._noted:
            return
        self._noted.add(process)
        process.note_end()
        self._tell_guardian(process)
        process.output.drain()
        process.output.activity.has_ended = True
        clock = self._runtime.clock
        now, runtime = clock.now(), clock.elapsed() - process.started_at
        oom = self._oom_killed(status)
        is_over = self._stopping or self._decided.is_set()
        first = not (status.ok or is_over)
        if first:
            self._death = Death(process, self.generation, status, now, runtime, oom)
            first = not self._is_explained(self._death.failure)
        spec = process.spec
        if spec.significant and status.ok:
            self._expected -= 1
            if spec.testimony is not None and not self._stopping:
                self._doubt = self._doubt or spec.testimony.false_success(process.output.last_lines)
        if self._death is not None or self._doubt is not None or self._expected == 0:
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

    def _oom_killed(self, status: ExitStatus) -> bool | None:
        """True if the cgroup's OOM counter rose and the SIGKILL was not ours; None if unknown."""
        if status.signal != signal.SIGKILL or self._stopping:
            return False
        now = self._runtime.oom_kills()
        if now is None or self._oom_kills is None:
            return None
        return now > self._oom_kills


def _session(pid: Pid) -> int | None:
    """None if it has ended; raises OSError at EMFILE and the like."""
    found = stat(pid.number)
    return None if found is None else found.session
