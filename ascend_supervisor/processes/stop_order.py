"""Who of some processes is told to end now, and who after others; decided without I/O.

* What the signal simply ends, and every shell, is told at once, and so is what is below it: neither
  passes a signal on.
* What handles the signal may end its own children in order, or need them while it saves: they are
  told when it has ended, or when it has had its head start.
* What reads the output of others (tee, cat, a logger, a wrapper) is told when they have ended, and
  when it has had time to read the rest: they would die of a broken pipe while they save.
* What keeps the shared memory of others is told when what has started it has ended, and when it has
  had time to remove that memory.
"""

from __future__ import annotations

import signal
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from math import inf

from msgspec import Struct

from ascend_supervisor.processes.descriptors import KEEP_SHARED_MEMORY
from ascend_supervisor.processes.pid import Pid

READ_REST_SECONDS = 1.0
"""What reads a pipe ends by itself, as soon as it has read all that is left there."""
WAITING_SECONDS = 1.0
"""The head start of what did nothing but wait for a child when it was told: a wrapper may have
noted the signal, and wait on."""
MOST_ORDERED = 512
MOST_DEEP = 32
"""Larger and deeper families have no order: it would take too long to find."""
SHELLS = frozenset({"sh", "ash", "bash", "busybox", "dash", "fish", "ksh", "ksh93", "mksh", "zsh"})
"""They run a trap only when the command that they wait for has ended."""
SIGNAL_THEIR_GROUP = frozenset({"catatonit", "dumb-init", "timeout", "tini"})
"""They pass a signal on to all at once, readers too, and end when what they have started ends."""


class LiveProcess(Struct, frozen=True):
    """A process that lives. ``handles``, ``ignores``: how it takes the signal that it would get.

    ``number`` is that signal. ``says`` are the pipes at its stdout and stderr, ``reads`` those that
    it reads. ``waits``: it waits for a child to end.
    """

    pid: Pid
    parent: int
    number: int = signal.SIGTERM
    program: str = ""
    handles: bool = False
    ignores: bool = False
    says: frozenset[str] = frozenset()
    reads: frozenset[str] = frozenset()
    waits: bool = False

    @property
    def minds(self) -> bool:
        """Whether the signal does not simply end it."""
        return self.handles or self.ignores

    @property
    def leads(self) -> bool:
        """Whether it may end what is below it."""
        return self.handles and self.program not in SHELLS


class StopOrder:
    """What lives below a member that was told counts from then on for ``head_start`` seconds."""

    def __init__(self, head_start: float) -> None:
        self._head_start = head_start
        self._told: dict[Pid, float] = {}
        self._only_wait: frozenset[Pid] | None = None
        self._rests: dict[Pid, float] = {}
        self._has_read_below: set[Pid] = set()
        self.waits_for: frozenset[Pid] = frozenset()
        """If one of these has ended, or at ``next_at``, others may be due."""
        self.next_at = inf

    def due(self, members: Sequence[LiveProcess], now: float) -> list[Pid]:
        """Those that are to be told now; they count as told."""
        family = _Family(members)
        if self._only_wait is None:
            self._only_wait = frozenset(one.pid for one in members if one.waits)
        waits: dict[Pid, set[Pid]] = {}
        self.next_at = inf
        for member in members if family.has_order else ():
            if member.pid in self._told:
                continue
            for other, until in self._before(member, family, now):
                if until > now:
                    waits.setdefault(member.pid, set()).add(other.pid)
                    self.next_at = min(self.next_at, until)
        for pid in _in_a_circle(waits):
            del waits[pid]
        self.waits_for = frozenset[Pid]().union(*waits.values())
        due = [one.pid for one in members if one.pid not in self._told and one.pid not in waits]
        self._told.update(dict.fromkeys(due, now))
        return due

    def _before(
        self, member: LiveProcess, family: _Family, now: float
    ) -> Iterator[tuple[LiveProcess, float]]:
        """Those that ``member`` waits for, each with the time until which it does so at most."""
        for head in family.above(member):
            if head.leads and head.program not in SIGNAL_THEIR_GROUP:
                yield head, self._told.get(head.pid, now) + self._start_of(head)
        if member.program in SIGNAL_THEIR_GROUP:
            yield from ((other, inf) for other in family.below(member))
        writers = family.carried(member)
        yield from ((writer, inf) for writer in writers)
        if any(member in family.above(writer) for writer in writers):
            self._has_read_below.add(member.pid)
        goes_on = member.program in SHELLS and member.pid in self._has_read_below
        keeps = member.program in KEEP_SHARED_MEMORY
        starter = next(family.above(member), None) if keeps else None
        if starter is not None:
            yield starter, inf
        elif keeps or (member.reads and not writers and not member.minds and not goes_on):
            rest = KEEP_SHARED_MEMORY.get(member.program, READ_REST_SECONDS)
            yield member, self._rests.setdefault(member.pid, now) + rest

    def _start_of(self, head: LiveProcess) -> float:
        """How long the head start of ``head`` is, in seconds."""
        only_waits = self._only_wait is not None and head.pid in self._only_wait
        return min(self._head_start, WAITING_SECONDS) if only_waits else self._head_start


def _in_a_circle(waits: Mapping[Pid, Collection[Pid]]) -> list[Pid]:
    """Those that would wait for each other for ever, and those behind them.

    Who waits for itself waits for a moment.
    """
    left = dict(waits)
    while ends := [pid for pid, others in left.items() if not left.keys() - {pid} & {*others}]:
        for pid in ends:
            del left[pid]
    return list(left)


class _Family:
    """Who is above whom, and who writes to whom."""

    def __init__(self, members: Sequence[LiveProcess]) -> None:
        self._members = members
        self._by_number = {one.pid.number: one for one in members}
        self.has_order = len(members) <= MOST_ORDERED and not any(map(self._is_deep, members))
        self._writers = {
            one.pid: [other for other in members if other is not one and self._is_heard(other, one)]
            for one in members
            if one.reads and self.has_order
        }

    def above(self, member: LiveProcess) -> Iterator[LiveProcess]:
        """Its parent, and so on."""
        seen = {member.pid}
        parent = self._by_number.get(member.parent)
        while parent is not None and parent.pid not in seen:
            yield parent
            seen.add(parent.pid)
            parent = self._by_number.get(parent.parent)

    def _is_deep(self, member: LiveProcess) -> bool:
        return any(islice(self.above(member), MOST_DEEP, None))

    def below(self, member: LiveProcess) -> Iterator[LiveProcess]:
        return (one for one in self._members if member in self.above(one))

    def carried(self, member: LiveProcess) -> Collection[LiveProcess]:
        """Those whose output it reads, if it is to outlive them."""
        return self._writers.get(member.pid, ())

    def _is_heard(self, writer: LiveProcess, reader: LiveProcess) -> bool:
        """A reader with a handler of its own does not outlive what would die of the signal.

        So ``yes | train.py`` is told at once. What handles the signal and has started the writers
        ends them itself.
        """
        if reader.reads.isdisjoint(writer.says):
            return False
        return not reader.minds or (writer.minds and reader not in self.above(writer))
