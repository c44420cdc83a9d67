"""Whose process is it: which of our descendants are ours to end. It looks, and signals nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from ascend_supervisor.processes import proc
from ascend_supervisor.processes.pid import Pid

OWNER = "ASCEND_SUPERVISOR_OWNER"
"""The variable in every rank's environment that says whose it is: ``PID.START@STATE_FILE``."""


def owner_mark(place: str) -> str:
    """The value of OWNER for what this process starts."""
    return f"{os.getpid()}.{proc.start_time(os.getpid())}@{place}"


def is_mark_of_the_dead(mark: str, place: str) -> bool:
    """Whether this value of OWNER names a supervisor of this ``place`` that is no more."""
    owner, _, where = mark.partition("@")
    number, _, start = owner.partition(".")
    if where != place or not (number.isdecimal() and start.isdecimal()):
        return False
    return not Pid(int(number), int(start)).lives


@dataclass(frozen=True, slots=True)
class Known:
    """Processes that are ours, living or dead, and the pipes they write to (``pipe:[4026]``)."""

    pids: frozenset[Pid] = frozenset()
    pipes: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Ownership:
    """``mark`` is our value of OWNER; ``before`` was below us before we began, and is not ours."""

    mark: str
    before: frozenset[Pid]

    @classmethod
    def from_now_on(cls, mark: str) -> Ownership:
        """To be called before anything is started that is to be ended."""
        below = map(Pid.of, proc.descendants(os.getpid()))
        return cls(mark, frozenset(pid for pid in below if pid is not None))

    @property
    def takes_in_strangers(self) -> bool:
        """Whether orphans become our children that no process of ours has started.

        PID 1 inherits those of ``kubectl exec``, and we those of the children that we had before.
        """
        return os.getpid() == 1 or bool(self.before)

    def ours(self, known: Known) -> list[Pid]:
        """All descendants that are ours, zombies too; raises OSError where nobody can look.

        Where orphans may be strangers, those are ours that are ``known``, hang below one that is,
        are in its session, hold its pipe, or bear our mark.
        """
        return list(self._below_us(known))

    def _below_us(self, known: Known) -> Iterator[Pid]:
        """What hangs below a process that is ours is ours; a tree may be deeper than a stack."""
        parents = [(os.getpid(), not self.takes_in_strangers)]
        while parents:
            parent, parent_is_ours = parents.pop()
            for number in proc.children(parent):
                stat = proc.stat(number)
                if stat is None:
                    continue
                pid = Pid(number, stat.start)
                if pid in self.before:
                    continue
                is_ours = parent_is_ours or self._shows_it(pid, stat, known)
                if is_ours:
                    yield pid
                parents.append((number, is_ours))

    def _shows_it(self, pid: Pid, stat: proc.Stat, known: Known) -> bool:
        if pid in known.pids or _is_in_session_of(known.pids, stat):
            return True
        if stat.is_dead:
            return False
        if proc.holds_file(pid.number, known.pipes):
            return True
        # The environment of what is stuck in a driver must not be asked for: that would hang, too.
        return stat.state != "D" and proc.environ(pid.number).get(OWNER.encode()) == os.fsencode(
            self.mark
        )


def _is_in_session_of(known: frozenset[Pid], stat: proc.Stat) -> bool:
    if all(leader.number != stat.session for leader in known):
        return False
    leader = Pid.of(stat.session)
    return leader is None or leader in known  # else its number is somebody else's now
