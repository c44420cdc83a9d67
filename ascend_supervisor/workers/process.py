"""One process and everything it forks: started, signalled and ended together."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress

from ascend_supervisor.errors import (
    CannotExecute,
    CannotWrite,
    CommandNotFound,
    Unavailable,
)
from ascend_supervisor.events.generations import ProcessStarted
from ascend_supervisor.files.regular_file import reason_of
from ascend_supervisor.outcome import ExitStatus
from ascend_supervisor.output.rank_output import RankOutput
from ascend_supervisor.phrases import run_list
from ascend_supervisor.process_spec import ProcessSpec, changed, rank_in
from ascend_supervisor.processes.children import Child, Children
from ascend_supervisor.processes.pid import Pid
from ascend_supervisor.processes.proc import Stat, catches, environ
from ascend_supervisor.processes.process_groups import ProcessGroups, leading_children
from ascend_supervisor.processes.scheduling import bind, cpus_of, given_to_children
from ascend_supervisor.scarcity import scarcity
from ascend_supervisor.workers.standbys import Standbys

FOR_THE_GROUP = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGKILL, signal.SIGCONT})
"""The others go to the leader only: helpers have no handler, and the default action ends them."""


class Process:
    """A started process. Its session, and so its process group, has its pid."""

    def __init__(
        self,
        spec: ProcessSpec,
        child: Child,
        output: RankOutput,
        started_at: float,
        *,
        is_warm: bool = False,
    ) -> None:
        self.spec = spec
        self.is_warm = is_warm
        self.output = output
        self.started_at = started_at
        self.identity = _identity(child.pid)
        """None if /proc could not be read (EMFILE and the like)."""
        self.cpus = None if spec.cpus is None else cpus_of(child.pid)
        """Where it runs, as read back at its start; None if it was not to be bound, or has gone."""
        self._child = child
        self._leads = True
        """Whether its group's number is still its own, which holds until its end is noted."""
        self._groups = ProcessGroups()
        """The rest of its own group, the groups of a signalled launcher's workers, and those of its
        kin."""

    def started_event(self, generation: int) -> ProcessStarted:
        spec, cpus = self.spec, None if self.cpus is None else run_list(self.cpus)
        place = spec.rank, spec.local_rank, generation, self.pid, str(spec.log), spec.program
        return ProcessStarted(*place, self.is_warm, cpus)

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def status(self) -> ExitStatus | None:
        """How it ended; None while it runs."""
        code = self._child.returncode
        return None if code is None else ExitStatus.of(code)

    @property
    def peak_memory(self) -> int | None:
        """The most that it, or a child that it has waited for, has had in bytes; None: it runs."""
        return self._child.peak_memory

    async def ended(self) -> ExitStatus:
        return ExitStatus.of(await self._child.ended())

    def note_end(self) -> None:
        """To be called soon after its end, to see which processes are left in its group."""
        if self._leads and self.status is not None:
            self._leads = False
            self._groups.add_left_behind(self.pid)

    def take_in(self, kin: Iterable[Pid]) -> None:
        """From now on the groups of ``kin`` are signalled and waited for like its own.

        Raises OSError at EMFILE and the like.
        """
        self.note_end()
        self._groups.add_groups_of(kin, apart_from=self.pid if self._leads else None)

    def members(self, family: Mapping[Pid, Stat]) -> list[Pid]:
        """Those of ``family`` that are signalled together with it; raises OSError.

        What is in the session of a rank that lives, or below it in another one (setsid), belongs to
        it: ``timeout`` and job control make groups of their own, too. ``family`` holds parents
        before their children.
        """
        self.note_end()
        if self._leads and (self.spec.rank is not None or self.spec.workers):
            self._groups.add_groups_of(self._below(family), apart_from=self.pid)
        self._groups.add(self.workers())
        numbers = self._groups.inhabited()
        if self._leads:
            numbers |= {self.pid}
        return [pid for pid, found in family.items() if found.group in numbers]

    def _below(self, family: Mapping[Pid, Stat]) -> Iterator[Pid]:
        numbers = {self.pid}
        for pid, found in family.items():
            if found.session == self.pid or found.parent in numbers:
                numbers.add(pid.number)
                yield pid

    @property
    def group_is_empty(self) -> bool:
        """Whether it and all members of its process group are gone, zombies included.

        For a launcher that was signalled, its workers' groups count, too, and so do those of kin.
        """
        self.note_end()
        return not self._leads and self._groups.are_empty

    @property
    def groups(self) -> frozenset[int]:
        """The numbers of the groups that get its signals; some may be empty."""
        return self._groups.numbers | {self.pid}

    @property
    def left_behind(self) -> list[Pid]:
        """What lives in its group and in its kin's, apart from itself, as far as was seen.

        Raises OSError at EMFILE and the like.
        """
        return sorted(pid for pid in self._groups.members if pid.lives)

    @property
    def ranks_have_ended(self) -> bool:
        """Whether it has ended, and its group and its kin's with it if they may be ranks."""
        return self.group_is_empty if self.spec.leads_ranks else self.status is not None

    def send(self, number: int) -> bool:
        """Signal the group, or only the leader if the signal is not for helpers.

        A stopped process (SIGSTOP) is continued, or it would not handle the signal. We signal a
        launcher's workers ourselves, because not every launcher does. Returns whether any process
        got it.
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
        """Signal the workers or the leader; a leader that is not a rank only if it has a handler.

        Without a handler it would die: a launcher in its first seconds, before it has workers.
        QUIT still asks for the end, so it becomes TERM.
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
        """The ranks of a launcher's live workers, by pid, as far as they are known."""
        ranks = {}
        for pid in self.workers():
            rank = rank_in(environ(pid.number))
            if rank is not None:
                ranks[pid.number] = rank
        return ranks

    def workers(self) -> set[Pid]:
        """The children of a launcher that lead a session, like those of torchrun and msrun."""
        if not self.spec.workers or self.status is not None:
            return set()
        try:
            return set(leading_children(self.pid))
        except OSError:  # EMFILE: the sweep ends what the launcher does not
            return set()


def _identity(number: int) -> Pid | None:
    with suppress(OSError):
        return Pid.of(number)
    return None


def _send_group(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


async def start(
    spec: ProcessSpec,
    output: RankOutput,
    parent: Children,
    inherited: Mapping[str, str],
    now: float,
    standbys: Standbys | None = None,
) -> Process:
    """Start ``spec`` with ``inherited`` as its environment, changed as the spec says.

    If one of the ``standbys`` suits, that becomes the process.
    Raises CommandNotFound, CannotExecute, CannotWrite (its working directory) or Unavailable (the
    machine has no room for another process). What ``prepare`` has checked may have changed since.
    """
    environ = changed(inherited, spec.environ)
    try:
        with output.write_end() as write_end:
            found = await standbys.become(spec, environ, write_end) if standbys else None
            child = found.child if found else _spawned(spec, environ, write_end, parent)
    except OSError as error:
        raise _refusal(spec, error) from error
    with parent.spare_descriptor():
        if found is not None and spec.cpus is not None:
            bind(child.pid, spec.cpus)
        return Process(spec, child, output, now, is_warm=found is not None and found.is_warm)


def _spawned(spec: ProcessSpec, environ: Mapping[str, str], output: int, parent: Children) -> Child:
    """A new process; raises OSError."""
    with given_to_children(spec.cpus, spec.memory_node):
        return parent.spawn(
            spec.argv,
            environ=environ,
            cwd=str(spec.cwd),
            output=output,
            descriptors=spec.descriptors,
            own_words=spec.own_words,
        )


def _refusal(
    spec: ProcessSpec, error: OSError
) -> CommandNotFound | CannotExecute | CannotWrite | Unavailable:
    reason = reason_of(error)
    if error.filename is not None and str(error.filename) == str(spec.cwd):
        return CannotWrite(f"{spec.name}: cannot enter its directory {spec.cwd}: {reason}")
    if lacking := scarcity(error):
        return Unavailable(f"{spec.name}: the machine has no room for another process: {lacking}")
    if error.errno == errno.ENOENT:
        return CommandNotFound(f"{spec.name}: {spec.argv[0]!r} cannot be started: {reason}")
    return CannotExecute(f"{spec.name}: {spec.argv[0]!r} cannot be executed: {reason}")
