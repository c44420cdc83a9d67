"""Looks at all ranks at the same time: /proc first, then py-spy or the user's signal.

The ranks that a command starts itself are known by their environments.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from signal import Signals

import anyio
from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.files.watch import FileSystemTimeout, SlowFiles
from ascend_supervisor.life import Life, Living
from ascend_supervisor.output.last_lines import Activity
from ascend_supervisor.process_spec import rank_in
from ascend_supervisor.processes import proc
from ascend_supervisor.processes.pid import Pid
from ascend_supervisor.scarcity import NoThread, scarcity
from ascend_supervisor.settings.readers import HangDump
from ascend_supervisor.stacks import pyspy
from ascend_supervisor.stacks.kernel_side import family, look_at
from ascend_supervisor.stacks.pyspy import PySpy, PySpyFailed
from ascend_supervisor.stacks.seen import ENDED, STOPPED, STUCK, Looked, SeenProcess, Subject
from ascend_supervisor.stacks.signalled import ask
from ascend_supervisor.tasks.threads import in_turn
from ascend_supervisor.workers.runtime import Runtime

MOST_PROCESSES = 512


class _Told(Struct, frozen=True):
    """What an environment says; the local rank tells a worker from a node with the same number."""

    rank: int
    local_rank: bytes | None


def with_ranks_below(command: Subject) -> tuple[Subject, ...]:
    """The command, and the ranks below it as subjects of their own; raises OSError at EMFILE.

    A process is a rank if its environment names one (RANK_ID, RANK) and its parent's does not name
    the same. Of several such processes with the same rank the first one counts.
    """
    if command.pid is None or not command.leads_ranks:
        return (command,)
    pids = _ranks_below(command.pid)
    others = frozenset(pids.values())
    found = [
        replace(command, name=f"rank {rank}", rank=rank, pid=pid, others=others - {pid})
        for rank, pid in sorted(pids.items())
    ]
    return (*found, replace(command, others=others))


def _ranks_below(command: int) -> dict[int, int]:
    """Their pids, by rank."""
    below, _ = family(command, (), MOST_PROCESSES)
    told = {pid: _told(pid) for pid in below}
    found: dict[int, int] = {}
    for pid in below[1:]:
        named = told[pid]
        if named is not None and told.get(proc.parent(pid) or 0) != named:
            found.setdefault(named.rank, pid)
    return found


def _told(pid: int) -> _Told | None:
    stat = proc.stat(pid)
    if stat is None or stat.is_dead or stat.state == STUCK:  # its environment may not be readable
        return None
    environ = proc.environ(pid)
    rank = rank_in(environ)
    return None if rank is None else _Told(rank, environ.get(b"LOCAL_RANK"))


def subjects_of(life: Life) -> tuple[Subject, ...]:
    """Ranks in their order, then processes that serve them; a launcher's workers are ranks."""
    found = [subject for living in life.processes for subject in _subjects(living)]
    return tuple(sorted(found, key=lambda one: (one.rank is None, one.rank or 0)))


def _subjects(living: Living) -> Iterator[Subject]:
    spec = living.spec
    has_ended = living.activity.has_ended
    workers = {} if has_ended else dict(living.ranks_of_workers)
    yield Subject(
        name=spec.name,
        rank=spec.rank,
        pid=None if has_ended else living.pid,
        activity=living.activity,
        log=str(spec.log),
        others=frozenset(workers),
        significant=spec.significant,
        leads_ranks=spec.leads_ranks,
    )
    for pid, rank in workers.items():
        activity, log = _log_of(living, rank)
        yield Subject(f"rank {rank}", rank, pid, activity, log, parent=living.pid)


def _log_of(living: Living, rank: int) -> tuple[Activity, str]:
    """The log that a launcher's worker writes: its own, or its launcher's."""
    logs = zip(living.spec.worker_logs, living.activity_of_workers, strict=False)
    for log, activity in logs:
        if log.rank == rank:
            return activity, str(log.path)
    return living.activity, str(living.spec.log)


AT_ONCE = 16
"""How many calls of py-spy, and how many threads that read /proc."""
KERNEL_SECONDS = 5.0
"""How long /proc may take to answer."""

NO_PYSPY = "py-spy is not installed: neither on PATH nor beside the supervisor's Python"
NO_ANSWER = "py-spy could not be looked for in the directories of PATH"


class Survey:
    """``looks`` is filled by ``run``; what is in it counts even if that is cancelled.

    ``threads`` bounds those that may be stuck in /proc, and ``path`` asks the directories of PATH,
    both over all surveys: a place that does not answer holds up no more of them than these.
    ``lacks_pyspy``: it was looked for, on PATH and in the directory ``beside``, and not found.
    """

    def __init__(
        self,
        how: HangDump,
        runtime: Runtime,
        threads: anyio.Semaphore,
        path: SlowFiles,
        beside: Path = pyspy.BESIDE,
    ) -> None:
        self.looks: list[Looked] = []
        self.lacks_pyspy = False
        self._lacking = ""
        self._how = how
        self._runtime = runtime
        self._threads = threads
        self._path = path
        self._beside = beside
        self._calls = anyio.Semaphore(AT_ONCE)

    async def run(self, life: Life) -> None:
        with self._runtime.children.spare_descriptor():
            await self._find(life)
            spy = await self._py_spy()
            async with anyio.create_task_group() as tasks:
                for looked in self.looks:
                    tasks.start_soon(self._look_at, looked, spy)

    async def _find(self, life: Life) -> None:
        for subject in subjects_of(life):
            subjects: tuple[Subject, ...] = (subject,)
            if subject.leads_ranks:
                with suppress(OSError, NoThread), anyio.move_on_after(KERNEL_SECONDS):
                    subjects = await in_turn(partial(with_ranks_below, subject), self._threads)
            self.looks += map(Looked, subjects)

    async def _py_spy(self) -> PySpy | None:
        """None if it is not to be used, or not found: ``_lacking`` says why if that matters."""
        if isinstance(self._how, Signals):
            return None
        children, environ = self._runtime.children, self._runtime.environ
        try:
            program = await self._path.ask(partial(pyspy.installed, environ, self._beside))
        except FileSystemTimeout as late:
            self._lacking = f"{NO_ANSWER}: {late}"
            return None
        self.lacks_pyspy = program is None
        if program is None and self._how == "pyspy":
            self._lacking = NO_PYSPY
        return None if program is None else PySpy(program, children, environ)

    async def _look_at(self, looked: Looked, spy: PySpy | None) -> None:
        await self._read_proc(looked)
        if isinstance(self._how, Signals):
            await ask(looked, self._how, self._runtime.clock)
        elif spy is not None:
            with _cut_short(looked):
                for process in tuple(looked.processes):
                    await self._read_python(process, spy)
        elif self._lacking:
            looked.notes.append(self._lacking)

    async def _read_proc(self, looked: Looked) -> None:
        try:
            with anyio.move_on_after(KERNEL_SECONDS) as scope:
                await in_turn(partial(look_at, looked), self._threads)
        except (OSError, NoThread) as error:
            looked.notes.append(f"/proc cannot be read: {scarcity(error) or error}")
        else:
            if scope.cancelled_caught:
                looked.notes.append(f"/proc has not answered within {KERNEL_SECONDS:g} s")

    async def _read_python(self, process: SeenProcess, spy: PySpy) -> None:
        pid = Pid(process.pid, process.start)
        thread = None if process.main is None else process.main.tid
        unpaused = partial(spy.unpaused, pid, thread)
        async with self._calls:
            is_movable = _may_be_paused(process, pid)
            for way in (partial(spy.paused, pid), unpaused) if is_movable else (unpaused,):
                if not _lives(pid):  # both have ended meanwhile
                    return
                try:
                    process.python = await way()
                except PySpyFailed as failed:
                    _note(process, f"py-spy: {failed}")
                else:
                    return


@contextmanager
def _cut_short(looked: Looked) -> Iterator[None]:
    try:
        yield
    except anyio.get_cancelled_exc_class():
        looked.notes.append("py-spy was cut short")
        raise


def _lives(pid: Pid) -> bool:
    with suppress(OSError):
        return pid.lives
    return False


def _may_be_paused(process: SeenProcess, pid: Pid) -> bool:
    """Not if it is stopped already, or has a thread in state D, for which ptrace would wait.

    Nor if its main thread has ended, which cannot be traced.
    """
    immovable = STOPPED | {STUCK} | ENDED
    is_stopped = pyspy.is_stopped(pid)
    return not is_stopped and all(thread.state not in immovable for thread in process.threads)


def _note(process: SeenProcess, note: str) -> None:
    if note not in process.notes:
        process.notes.append(note)
