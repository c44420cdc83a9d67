"""What /proc says of a subject's processes and their threads. It may block: call it in a thread.

The numbers of system calls are those of the kernel's tables: arch/x86/entry/syscalls/syscall_64.tbl
and include/uapi/asm-generic/unistd.h (aarch64).
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Collection, Mapping
from pathlib import Path

from ascend_supervisor.processes import proc
from ascend_supervisor.stacks.seen import STUCK, KernelThread, Looked, SeenProcess
from ascend_supervisor.untrusted_text import printable


def _by_number(**calls: int) -> Mapping[int, str]:
    return {number: name for name, number in calls.items()}


_X86_64 = _by_number(
    read=0,
    write=1,
    open=2,
    close=3,
    poll=7,
    mmap=9,
    munmap=11,
    ioctl=16,
    pread64=17,
    pwrite64=18,
    readv=19,
    writev=20,
    select=23,
    sched_yield=24,
    madvise=28,
    pause=34,
    nanosleep=35,
    connect=42,
    accept=43,
    sendto=44,
    recvfrom=45,
    sendmsg=46,
    recvmsg=47,
    clone=56,
    fork=57,
    vfork=58,
    execve=59,
    wait4=61,
    semop=65,
    msgrcv=70,
    fcntl=72,
    flock=73,
    fsync=74,
    fdatasync=75,
    rt_sigtimedwait=128,
    rt_sigsuspend=130,
    futex=202,
    io_getevents=208,
    restart_syscall=219,
    semtimedop=220,
    clock_nanosleep=230,
    exit_group=231,
    epoll_wait=232,
    waitid=247,
    openat=257,
    newfstatat=262,
    pselect6=270,
    ppoll=271,
    epoll_pwait=281,
    accept4=288,
    statx=332,
    io_uring_enter=426,
    clone3=435,
    epoll_pwait2=441,
    futex_waitv=449,
)
_AARCH64 = _by_number(
    io_getevents=4,
    epoll_pwait=22,
    fcntl=25,
    ioctl=29,
    flock=32,
    openat=56,
    close=57,
    read=63,
    write=64,
    readv=65,
    writev=66,
    pread64=67,
    pwrite64=68,
    pselect6=72,
    ppoll=73,
    newfstatat=79,
    fsync=82,
    fdatasync=83,
    exit_group=94,
    waitid=95,
    futex=98,
    nanosleep=101,
    clock_nanosleep=115,
    sched_yield=124,
    restart_syscall=128,
    rt_sigsuspend=133,
    rt_sigtimedwait=137,
    msgrcv=188,
    semtimedop=192,
    semop=193,
    accept=202,
    connect=203,
    sendto=206,
    recvfrom=207,
    sendmsg=211,
    recvmsg=212,
    munmap=215,
    clone=220,
    execve=221,
    mmap=222,
    madvise=233,
    accept4=242,
    wait4=260,
    statx=291,
    io_uring_enter=426,
    clone3=435,
    epoll_pwait2=441,
    futex_waitv=449,
)
_TABLES: Mapping[str, Mapping[int, str]] = {"x86_64": _X86_64, "aarch64": _AARCH64}


def system_call(text: str, machine: str) -> str:
    """What /proc/PID/syscall says: a name, ``system call 999``, or nothing if it is in none.

    ``machine`` is that of uname(2).
    """
    number = text.partition(" ")[0]
    if not number.isdecimal():  # "running", or -1: it waits, but not in a system call
        return ""
    return _TABLES.get(machine, {}).get(int(number), f"system call {number}")


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
    reader = _ThreadReader(proc.PROC / str(process.pid) / "task")
    process.threads = reader.threads() or process.threads
    process.notes += reader.notes
    if process.state != STUCK:
        process.description = proc.description(process.pid)


class _ThreadReader:
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
