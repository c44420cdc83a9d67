"""One process and everything it forks: started, signalled and ended together."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

from ascend_supervisor.errors import (
    CannotExecute,
    CannotWrite,
    CommandNotFound,
    Unavailable,
    scarcity,
)
from ascend_supervisor.launchers.spec import ProcessSpec
from ascend_supervisor.outcome import ExitStatus
from ascend_supervisor.output.pump import Pump
from ascend_supervisor.processes.children import Child, Children
from ascend_supervisor.processes.pid import Pid
from ascend_supervisor.processes.proc import catches, children, environ, stat
from ascend_supervisor.processes.process_groups import ProcessGroups

FOR_THE_GROUP = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGKILL, signal.SIGCONT})
"""The others go to the leader only: helpers have no handler, and the default action ends them."""


class Process:
    """A started process. Its session, and so its process group, has its pid."""

    def __init__(self, spec: ProcessSpec, child: Child, pump: Pump, started_at: float) -> None:
        self.spec = spec
        self.pump = pump
        self.started_at = started_at
        self.identity = _identity(child.pid)
        """None where the machine had no room to look."""
        self._child = child
        self._leads = True
        """Whether the number of its group is its own still, as it is until its end is noted."""
        self._groups = ProcessGroups()
        """What it left of its own, and those of the workers of a launcher that was signalled."""

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def status(self) -> ExitStatus | None:
        """How it ended; None while it runs."""
        return self._child.status

    async def ended(self) -> ExitStatus:
        return await self._child.ended()

    def note_end(self) -> None:
        """To be called soon after its end: then it is seen who is left in its group."""
        if self._leads and self.status is not None:
            self._leads = False
            self._groups.add_left_behind(self.pid)

    @property
    def group_is_empty(self) -> bool:
        """Whether it and everything that stayed in its process group is gone, zombies included.

        In those of its workers too, where it is a launcher that was signalled.
        """
        self.note_end()
        return not self._leads and self._groups.are_empty

    def send(self, number: int) -> bool:
        """Signal the group, or the leader where the signal is not meant for helpers.

        A process that was stopped (SIGSTOP) is continued, or it would not hear it. The workers of
        a launcher hear it from us: not every launcher tells them. Gives whether somebody got it.
        """
        workers = self.workers()
        if number not in FOR_THE_GROUP:
            return self._send_to_leader(number, workers)
        self.note_end()
        self._groups.add(workers)
        for each in (number, signal.SIGCONT):
            if self._leads:
                _send_group(self.pid, each)
            self._groups.send(each)
        return not self.group_is_empty

    def _send_to_leader(self, number: int, workers: Collection[Pid]) -> bool:
        """What is no rank, and has no handler for it, would only die of it: nobody gets it then.

        So it is with a launcher in its first seconds, before it has workers. QUIT asks for the end
        all the same.
        """
        if self.status is not None:
            return False
        if workers:
            return sum(pid.send(number) for pid in workers) > 0
        if self.spec.rank is None and not catches(self.pid, number):
            return number == signal.SIGQUIT and self.send(signal.SIGTERM)
        with suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, number)
        return True

    def ranks_of_workers(self) -> dict[int, int]:
        """The ranks of a launcher's workers that live now, by their pids, where they have one."""
        ranks = {}
        for pid in self.workers():
            told = environ(pid.number)
            rank = told.get(b"RANK_ID") or told.get(b"RANK") or b""
            if rank.isdigit():
                ranks[pid.number] = int(rank)
        return ranks

    def workers(self) -> set[Pid]:
        """The children of a launcher that lead a session, as those of torchrun and msrun do."""
        if self.spec.testimony is None or self.status is not None:
            return set()
        try:
            return set(filter(None, map(_session_leader, children(self.pid))))
        except OSError:  # no room to look: what the launcher does not end is swept at last
            return set()


def _identity(number: int) -> Pid | None:
    with suppress(OSError):
        return Pid.of(number)
    return None


def _send_group(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _session_leader(number: int) -> Pid | None:
    """The process with this number, if it leads a session."""
    found = stat(number)
    return Pid(number, found.start) if found and found.session == number else None


def start(
    spec: ProcessSpec,
    new_pump: Callable[[], Pump],
    parent: Children,
    inherited: Mapping[str, str],
    now: float,
) -> Process:
    """Start ``spec`` with ``inherited`` as its environment, changed as the spec says.

    Raises CommandNotFound, CannotExecute, CannotWrite (its working directory) or Unavailable (the
    machine has no room for another process). What ``prepare`` has checked may have changed since.
    """
    environ = changed(inherited, spec.environ)
    try:
        pump = new_pump()
    except OSError as error:
        raise _refusal(spec, error) from error
    try:
        child = parent.spawn(
            spec.argv,
            environ=environ,
            cwd=str(spec.cwd),
            output=pump.write_end,
            descriptors=spec.descriptors,
        )
    except OSError as error:
        pump.started()
        pump.finish()
        raise _refusal(spec, error) from error
    pump.started()
    with parent.spare_descriptor():
        return Process(spec, child, pump, now)


def changed(environ: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """``environ`` with ``changes``; None removes a variable."""
    merged: dict[str, str | None] = {**environ, **changes}
    return {name: value for name, value in merged.items() if value is not None}


def _refusal(
    spec: ProcessSpec, error: OSError
) -> CommandNotFound | CannotExecute | CannotWrite | Unavailable:
    reason = error.strerror or str(error)
    if error.filename is not None and str(error.filename) == str(spec.cwd):
        return CannotWrite(f"{spec.name}: cannot enter its directory {spec.cwd}: {reason}")
    if lacking := scarcity(error):
        return Unavailable(f"{spec.name}: the machine has no room for another process: {lacking}")
    if error.errno == errno.ENOENT:
        return CommandNotFound(f"{spec.name}: {spec.argv[0]!r} cannot be started: {reason}")
    return CannotExecute(f"{spec.name}: {spec.argv[0]!r} cannot be executed: {reason}")
