"""The owner of every waitpid: it starts processes, and no other code may wait for one.

Two waiters lose exit statuses when children die together. So ``subprocess.Popen`` only spawns here,
``reap`` is the only place that waits (the program's SIGCHLD callback), and other code awaits an
event. It needs nothing newer than Linux 3.4.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import struct
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType

import anyio

from ascend_supervisor.files.reserved_descriptor import Reserve
from ascend_supervisor.processes.kernel import inherited
from ascend_supervisor.processes.ownership import Mark
from ascend_supervisor.processes.pid import DeathOrder
from ascend_supervisor.tasks.clock import whole_second

PTRACE_DETACH = 17
PTRACE_GETSIGINFO = 0x4202
"""linux/ptrace.h; the same on x86-64 and aarch64."""
SIGINFO_BYTES = 128
_SENDER = struct.Struct("=8xi4xi")
"""si_code and si_pid of a siginfo_t on 64-bit machines."""
SI_USER, SI_TKILL = 0, -6
FOR_THE_TRACER = frozenset({signal.SIGSTOP, signal.SIGTRAP})
"""Signals that a traced process gets only to wait for its tracer: SIGSTOP, which it sends itself by
convention; SIGTRAP, which the kernel sends in its name after an exec."""


def let_go(pid: int, number: int) -> None:
    """End the tracing of a stopped process, which gets the signal ``number`` that stopped it.

    It continues as if it had never been traced. Only SIGSTOP and SIGTRAP that it sent itself are
    dropped: they were meant for its tracer. To be called in the main thread, which is the tracer.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    libc.ptrace.restype = ctypes.c_long
    if number in FOR_THE_TRACER:
        info = ctypes.create_string_buffer(SIGINFO_BYTES)
        # This fails if the process is in a group-stop; it then stays stopped.
        if libc.ptrace(PTRACE_GETSIGINFO, pid, None, info) == 0:
            code, sender = _SENDER.unpack_from(info)
            if sender == pid and code in (SI_USER, SI_TKILL):
                number = 0
    libc.ptrace(PTRACE_DETACH, pid, None, number)  # fails only if it was killed meanwhile


NOTHING: Mapping[str, str] = MappingProxyType({})
LINKER = ("LD_", "GLIBC_TUNABLES", "GCONV_PATH")
"""How variables begin that change the libraries of every program, see ld.so(8)."""


class Child:
    """A process that we started; its pid is ours to signal until ``returncode`` is set."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self._popen = popen
        self.pid = popen.pid
        self.peak_memory: int | None = None
        """The most that it, or a child that it has waited for, has had in bytes; None: it runs."""
        self._ended = anyio.Event()

    @property
    def returncode(self) -> int | None:
        """As that of Popen: minus the number of the signal that killed it; None while it runs."""
        return self._popen.returncode

    async def ended(self) -> int:
        """The return code, as soon as there is one."""
        await self._ended.wait()
        return self._popen.returncode

    def end(self, wait_status: int, peak_memory: int) -> None:
        self.peak_memory = peak_memory
        self._popen.returncode = os.waitstatus_to_exitcode(wait_status)
        self._ended.set()


class Children:
    """All children of this process, those we started and those we inherited.

    ``prefix`` is put before every command, for a wrapper such as ``setpriv --pdeathsig``, which
    starts with the libraries of ``environ``, our own environment. What has ``mark`` in its
    environment bears it as a number, too.
    Use it from the main thread only: PR_SET_PDEATHSIG follows the thread that spawned.
    """

    def __init__(
        self,
        prefix: Sequence[str] = (),
        order: DeathOrder | None = None,
        environ: Mapping[str, str] = NOTHING,
        mark: Mark | None = None,
    ) -> None:
        self._prefix = tuple(prefix)
        self._environ = environ
        self._mark = mark
        self._order = order or DeathOrder()
        self._living: dict[int, Child] = {}
        self._kept: set[int] = set()
        self._change = anyio.Event()
        self._reserve = Reserve()

    @property
    def started(self) -> frozenset[int]:
        """The pids of the processes that ``spawn`` has started and nobody has reaped yet."""
        return frozenset(self._living)

    @property
    def kept(self) -> frozenset[int]:
        """The pids of those among them that ``keep`` was called for."""
        return frozenset(self._kept)

    @property
    def die_with_us(self) -> bool:
        """Whether the kernel kills a process that we start when we die."""
        return bool(self._prefix) or os.getpid() == 1

    def keep(self, child: Child) -> None:
        """It serves the whole job: no sweep ends it, or its process group, while it lives."""
        if child.returncode is None:
            self._kept.add(child.pid)

    def keep_no_longer(self, child: Child) -> None:
        """It serves one generation from now on, and a sweep may end it."""
        self._kept.discard(child.pid)

    def spawn(
        self,
        argv: Sequence[str],
        *,
        environ: Mapping[str, str],
        cwd: str,
        output: int,
        errors: int | None = None,
        stdin: int = subprocess.DEVNULL,
        descriptors: Sequence[int] = (),
        own_words: int = 0,
    ) -> Child:
        """Start a process in a session of its own, with ``output`` as its stdout and stderr.

        Raises OSError when it cannot be started. Signal handlers, ignored signals and the mask are
        back to their defaults in it. ``errors`` is its stderr if that is to be another one. Of
        other descriptors it inherits only ``descriptors``, with their numbers.
        With the first ``own_words`` of ``argv``, a program starts that gets our own libraries; the
        command behind them gets those that ``environ`` names.
        """
        before, command = (*self._prefix, *argv[:own_words]), argv[own_words:]
        words, environ = self._wrapped(before, command, environ)
        with self._marking(environ):
            popen = subprocess.Popen(
                words,
                env=environ,
                cwd=cwd,
                stdin=stdin,
                stdout=output,
                stderr=output if errors is None else errors,
                start_new_session=True,
                pass_fds=tuple(descriptors),
            )
        child = Child(popen)
        self._living[child.pid] = child
        self._order.watch(child.pid)
        return child

    def _wrapped(
        self, before: Sequence[str], command: Sequence[str], environ: Mapping[str, str]
    ) -> tuple[Sequence[str], Mapping[str, str]]:
        """The words to start, and the environment in which the first of them starts.

        What is ``before`` a command gets our own libraries, and the command those of ``environ``.
        """
        changes = library_changes(self._environ, environ) if before else {}
        setting: list[str] = []
        if changes and command:
            env = shutil.which("env")
            if env is None or "=" in command[0]:  # env would take such a word for a variable
                return (*before, *command), environ
            unset = (f"--unset={name}" for name, value in changes.items() if value is None)
            words = (f"{name}={value}" for name, value in changes.items() if value is not None)
            setting = [env, *unset, *words]
        ours = {name: self._environ[name] for name in changes if name in self._environ}
        others = {name: value for name, value in environ.items() if name not in changes}
        return (*before, *setting, *command), {**others, **ours}

    def _marking(self, environ: Mapping[str, str]) -> AbstractContextManager[None]:
        mark = self._mark
        is_marked = mark is not None and environ.get(mark.variable) == mark.value
        return inherited(mark) if mark is not None and is_marked else nullcontext()

    def reap(self) -> None:
        """Reap all dead children; to be called on SIGCHLD, in the event loop's thread.

        Ours are reported in the order of their deaths, where DeathOrder knows it. A child that made
        us its tracer is detached.
        """
        reaped = False
        for pid in self._dead():
            taken, wait_status, used = os.wait4(pid, os.WNOHANG)
            if not taken:
                continue
            if os.WIFSTOPPED(wait_status):  # waitpid reports a stop only if we are the tracer
                let_go(pid, os.WSTOPSIG(wait_status))
                continue
            reaped = True
            self._kept.discard(pid)
            child = self._living.pop(pid, None)
            if child is not None:
                child.end(wait_status, used.ru_maxrss * 1024)
        if reaped:
            self._change.set()
            self._change = anyio.Event()

    def _dead(self) -> Iterator[int]:
        """Each child that is dead, or stopped and traced by us, until all are reaped."""
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if found is None:
                return
            # Read after the wait, so the list holds this child and all that died before it.
            yield from self._order.so_far() or (found.si_pid,)

    def spare_descriptor(self) -> AbstractContextManager[None]:
        """Free a reserved descriptor meanwhile, so that /proc can be read at EMFILE."""
        return self._reserve.lent()

    async def change(self) -> None:
        """Return when the next process has been reaped."""
        await self._change.wait()

    async def keep_reaping(self) -> None:
        """Reap every second, in case a SIGCHLD is lost; never returns."""
        while True:
            await whole_second()
            self.reap()


def library_changes(ours: Mapping[str, str], theirs: Mapping[str, str]) -> Mapping[str, str | None]:
    """The variables in which ``theirs`` has other libraries than ``ours``; None: unset there."""
    names = {name for name in (*ours, *theirs) if name.startswith(LINKER)}
    return {name: theirs.get(name) for name in sorted(names) if theirs.get(name) != ours.get(name)}
