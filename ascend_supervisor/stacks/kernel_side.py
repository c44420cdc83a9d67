"""What /proc says of a subject's processes and their threads. It may block: call it in a thread."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Collection
from pathlib import Path

from ascend_supervisor.processes import proc
from ascend_supervisor.stacks.seen import STUCK, KernelThread, Looked, SeenProcess
from ascend_supervisor.stacks.system_calls import system_call
from ascend_supervisor.untrusted_text import printable

MOST_PROCESSES = 33
"""A rank's own process, and 32 below it."""
MOST_THREADS = 512
"""Of one process; a rank with NPUs has some 100 to 300."""
STACK_CHARACTERS = 8192


def look_at(looked: Looked) -> None:
    """Add processes to ``looked`` one by one, so that the first are there if a read blocks.

    Raises OSError at EMFILE and the like.
    """
    subject = looked.subject
    top = None if subject.pid is None else proc.stat(subject.pid)
    if subject.pid is None or top is None or not _is_it(top, subject.parent):
        looked.has_ended = True
        return
    pids, more = family(subject.pid, subject.others, MOST_PROCESSES)
    if more:
        looked.notes.append(f"at least {more} more processes below it were not looked at")
    for pid in pids:
        if (process := _first_sight(pid)) is not None:
            looked.processes.append(process)
            _look_closer(process)


def _is_it(top: proc.Stat, parent: int | None) -> bool:
    """Whether it lives, and its number was not given to somebody else."""
    return not top.is_dead and parent in {None, top.parent}


def family(top: int, others: Collection[int], most: int) -> tuple[list[int], int]:
    """``top`` and what is below it, level by level, and how many are left out after ``most``."""
    found: list[int] = []
    ahead = deque([top])
    while ahead and len(found) < most:
        pid = ahead.popleft()
        found.append(pid)
        ahead += [below for below in proc.children(pid) if below not in others]
    return found, len(ahead)


def _first_sight(pid: int) -> SeenProcess | None:
    """What can be read even of a process that is stuck; None if it has ended."""
    stat = proc.stat(pid)
    if stat is None or stat.is_dead:
        return None
    name = printable(proc.name(pid))
    main = KernelThread(pid, name, stat.state)
    description = f"{pid} (state {stat.state}): {name}"
    return SeenProcess(pid, stat.start, stat.parent, description, (main,))


def _look_closer(process: SeenProcess) -> None:
    """The threads, and the command line, which cannot be read of a process that is stuck."""
    reader = _Reader(proc.PROC / str(process.pid) / "task")
    process.threads = reader.threads() or process.threads
    process.notes += reader.notes
    if process.state != STUCK:
        process.description = proc.description(process.pid)


class _Reader:
    """Reads the threads of one process, and notes once for each file why it cannot be read."""

    def __init__(self, tasks: Path) -> None:
        self._tasks = tasks
        self._refusals: dict[str, str] = {}
        self._machine = os.uname().machine
        self._left_out = 0

    @property
    def notes(self) -> list[str]:
        notes = [f"{name} cannot be read: {why}" for name, why in self._refusals.items()]
        if self._left_out:
            notes.append(f"{self._left_out} more threads were not looked at")
        return notes

    def threads(self) -> tuple[KernelThread, ...]:
        """In the order of their numbers; the main thread has the lowest, unless they wrapped."""
        try:
            names = sorted(os.listdir(self._tasks), key=int)  # noqa: PTH208  (numbers)
        except OSError as error:
            self._refuse("task", error)
            return ()
        main = self._tasks.parent.name
        names.sort(key=lambda name: name != main)
        self._left_out = max(0, len(names) - MOST_THREADS)
        return tuple(self._thread(name) for name in names[:MOST_THREADS])

    def _thread(self, name: str) -> KernelThread:
        wchan = self._read(name, "wchan")
        return KernelThread(
            tid=int(name),
            name=printable(self._read(name, "comm")),
            state=_state(self._read(name, "stat")),
            wchan="" if wchan == "0" else wchan,
            system_call=system_call(self._read(name, "syscall"), self._machine),
            stack=self._read(name, "stack")[:STACK_CHARACTERS],
        )

    def _read(self, thread: str, name: str) -> str:
        try:
            return (self._tasks / thread / name).read_text(errors="replace").strip()
        except OSError as error:
            self._refuse(name, error)
            return ""

    def _refuse(self, name: str, error: OSError) -> None:
        if not isinstance(error, (FileNotFoundError, ProcessLookupError)):
            self._refusals.setdefault(name, error.strerror or str(error))


def _state(stat: str) -> str:
    """The third field; the second, a name in parentheses, may hold any characters."""
    return "".join(stat.rpartition(")")[2].split()[:1])
