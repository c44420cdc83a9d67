"""The owner of every waitpid: it starts processes, and nobody else may wait for one.

Two waiters lose exit statuses when children die together. So ``subprocess.Popen`` only spawns here,
``reap`` is the one place that waits (the program's SIGCHLD callback), and whoever wants to know of
an end awaits an event. It needs nothing newer than Linux 3.4; pidfds only tell who was first.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

import anyio

from ascend_supervisor.outcome import ExitStatus
from ascend_supervisor.processes.death_order import DeathOrder
from ascend_supervisor.processes.tracing import let_go

SWEEP_SECONDS = 1.0
"""A SIGCHLD that got lost is made up for within this time."""


class Child:
    """A process that we started; its pid is ours to signal until ``status`` is set."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self._popen = popen
        self.pid = popen.pid
        self.status: ExitStatus | None = None
        self._ended = anyio.Event()

    async def ended(self) -> ExitStatus:
        await self._ended.wait()
        assert self.status is not None  # noqa: S101  (set before the event)
        return self.status

    def end(self, wait_status: int) -> None:
        code = os.waitstatus_to_exitcode(wait_status)
        self._popen.returncode = code
        self.status = ExitStatus(None, -code) if code < 0 else ExitStatus(code)
        self._ended.set()


class Children:
    """All children of this process, those we started and those we inherited.

    ``prefix`` is put before every command, for a wrapper such as ``setpriv --pdeathsig``.
    Use it from the main thread only: PR_SET_PDEATHSIG follows the thread that spawned.
    """

    def __init__(self, prefix: Sequence[str] = (), order: DeathOrder | None = None) -> None:
        self._prefix = tuple(prefix)
        self._order = order or DeathOrder()
        self._living: dict[int, Child] = {}
        self._change = anyio.Event()
        self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def spawn(
        self,
        argv: Sequence[str],
        *,
        environ: Mapping[str, str],
        cwd: str,
        output: int,
        descriptors: Sequence[int] = (),
    ) -> Child:
        """Start a process in a session of its own, with ``output`` as its stdout and stderr.

        Raises OSError when it cannot be started. Signal handlers, ignored signals and the mask are
        back to their defaults in it; its stdin is /dev/null. Of other descriptors it inherits only
        ``descriptors``, with their numbers.
        """
        popen = subprocess.Popen(
            (*self._prefix, *argv),
            env=environ,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            pass_fds=tuple(descriptors),
        )
        child = Child(popen)
        self._living[child.pid] = child
        self._order.watch(child.pid)
        return child

    def reap(self) -> None:
        """Take in everything that has died; to be called on SIGCHLD, in the event loop's thread.

        Of ours, who died first is told first (see DeathOrder for where that is known). A child that
        made us its tracer is let go.
        """
        reaped = False
        for pid in self._dead():
            taken, wait_status = os.waitpid(pid, os.WNOHANG)
            if not taken:
                continue
            if os.WIFSTOPPED(wait_status):  # waits tell a stop where it is we who trace
                let_go(pid, os.WSTOPSIG(wait_status))
                continue
            reaped = True
            child = self._living.pop(pid, None)
            if child is not None:
                child.end(wait_status)
        if reaped:
            self._change.set()
            self._change = anyio.Event()

    def _dead(self) -> Iterator[int]:
        """Each child that is dead, or stopped and traced by us, until the caller has taken all."""
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if found is None:
                return
            # Asked after the look: so it is among them, and with it all that died before.
            yield from self._order.so_far() or (found.si_pid,)

    @contextmanager
    def spare_descriptor(self) -> Iterator[None]:
        """Free a reserved descriptor meanwhile, so that /proc can be read at EMFILE."""
        spare, self._spare = self._spare, -1
        if spare >= 0:
            os.close(spare)
        try:
            yield
        finally:
            if self._spare < 0:
                with suppress(OSError):
                    self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    async def change(self) -> None:
        """Return when the next process has been reaped."""
        await self._change.wait()

    async def keep_reaping(self) -> None:
        """The sweep that stands behind SIGCHLD; never returns."""
        while True:
            await anyio.sleep(SWEEP_SECONDS)
            self.reap()
