"""Tells the processes of a group to stop, in order, and kills them in order."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct

from ascend_supervisor.process_spec import ProcessSpec
from ascend_supervisor.processes import proc
from ascend_supervisor.processes.children import Children
from ascend_supervisor.processes.descriptors import (
    LOOK_SECONDS,
    PipeEnds,
    all_pipes,
    only_waits,
    standard_pipes,
)
from ascend_supervisor.processes.pid import Pid
from ascend_supervisor.processes.stop_order import LiveProcess, StopOrder
from ascend_supervisor.tasks.clock import Clock
from ascend_supervisor.workers.process import FOR_THE_GROUP, Process

MOST_LOOKS = 10
"""A process that was forked meanwhile is told in the next look."""

Family = Mapping[Pid, proc.Stat]
"""Our descendants that live, parents before their children."""


class OrderedSignal:
    """``number`` for ``processes`` and all that is signalled together with them.

    What is below a process that handles the signal is told after it, or after ``head_start``
    seconds (StopOrder). ``outputs`` are the pipes that we read ourselves.
    """

    def __init__(
        self,
        number: int,
        processes: Sequence[Process],
        head_start: float,
        outputs: frozenset[str],
        children: Children,
        clock: Clock,
    ) -> None:
        self._number = number
        self._processes = processes
        self._outputs = outputs
        self._children = children
        self._clock = clock
        self._order = StopOrder(head_start)
        self._seen: Collection[Pid] = ()
        self._said: set[str] = set()
        """The pipes that any of them has written to: their readers outlive the writers."""

    def begin(self) -> None:
        """Tell all that wait for nobody. Where /proc cannot be read (EMFILE), tell all."""
        try:
            with self._children.spare_descriptor():
                self._tell()
        except OSError:
            for process in self._processes:
                process.send(self._number)

    def go_on(self) -> None:
        """Tell those that wait for nobody any more; to be called often."""
        order = self._order
        with suppress(OSError), self._children.spare_descriptor():
            is_due = self._clock.now() >= order.next_at
            if is_due or not all(pid.lives for pid in order.waits_for):
                self._tell()

    def _tell(self) -> None:
        until = time.monotonic() + LOOK_SECONDS
        for _ in range(MOST_LOOKS):
            family = living_descendants(self._seen)
            groups = {one: one.members(family) for one in self._processes}
            members = self._members(groups, family, until)
            self._seen = [member.pid for member in members]
            due = frozenset(self._order.due(members, self._clock.now()))
            numbers = {member.pid: member.number for member in members}
            sent = [self._send(one, pids, due, numbers) for one, pids in groups.items()]
            if all(sent):
                break

    def _members(
        self, groups: Mapping[Process, Sequence[Pid]], family: Family, until: float
    ) -> Sequence[LiveProcess]:
        """All that live of the processes: how they take the signal, and who reads of whom."""
        lone = [one.pid for one, pids in groups.items() if pids == [one.identity]]
        ours = {process.pid for process in groups}
        roots = frozenset(ours.union(pid.number for one in groups for pid in one.workers()))
        pids = [pid for pids in groups.values() for pid in pids]
        ends = {pid: standard_pipes(pid.number) for pid in pids if pid.number not in lone}
        self._said.update(*(one.says for one in ends.values()))
        self._said -= self._outputs
        around = _Around(frozenset(self._said), roots, until)
        return [
            LiveProcess(pid, 0, self._number)
            if pid not in ends
            else _member(pid, family[pid], self._number, ends[pid], around)
            for pid in pids
        ]

    def _send(
        self,
        process: Process,
        pids: Sequence[Pid],
        due: frozenset[Pid],
        numbers: Mapping[Pid, int],
    ) -> bool:
        """Tell those of its ``pids`` that are due; returns whether nobody can have been missed.

        A group of which nobody waits is told as a whole: nobody can be forked meanwhile.
        """
        is_whole = self._number in FOR_THE_GROUP or pids == [process.identity]
        if pids and is_whole and due.issuperset(pids):
            process.send(self._number)
            return True
        for pid in pids:
            if pid in due:
                pid.send(numbers[pid])
            pid.send(signal.SIGCONT)
        return due.isdisjoint(pids)


def has_order(spec: ProcessSpec, number: int) -> bool:
    """A launcher's workers get what is not for a group, and mpirun_head has an order of its own."""
    if spec.workers:
        return number in FOR_THE_GROUP
    return spec.rank is not None or spec.leads_ranks


class _Around(Struct, frozen=True):
    """What counts for all members of one look; after ``until`` no pipes are searched for."""

    said: frozenset[str]
    roots: frozenset[int]
    until: float


def _member(
    pid: Pid,
    found: proc.Stat,
    number: int,
    ends: PipeEnds,
    around: _Around,
) -> LiveProcess:
    """What does not expect SIGQUIT is asked to end by SIGTERM, unless we have started it."""
    takes = proc.dispositions(pid.number)
    if number not in FOR_THE_GROUP and not takes.catches(number):
        is_root = pid.number in around.roots and not takes.ignores(number)
        number = number if is_root else signal.SIGTERM
    said = around.said
    heard = all_pipes(pid.number, around.until).reads & said if said else frozenset[str]()
    return LiveProcess(
        pid,
        0 if pid.number in around.roots else found.parent,
        number,
        proc.program(pid.number),
        takes.handles(number),
        takes.ignores(number),
        ends.says,
        heard | ends.reads,
        proc.waits_for_child(pid.number),
    )


def living_descendants(seen: Collection[Pid]) -> Family:
    """Ours; raises OSError at EMFILE and the like.

    A scan can miss a process that changes its parent meanwhile. Those that were ``seen`` before are
    not missed.
    """
    family: dict[Pid, proc.Stat] = {}
    for _ in range(MOST_LOOKS):
        found = ((number, proc.stat(number)) for number in proc.descendants(os.getpid()))
        family = {
            Pid(number, stat.start): stat for number, stat in found if stat and not stat.is_dead
        }
        if not any(pid.lives for pid in seen if pid not in family):
            break
    return family


def kill_first(processes: Sequence[Process]) -> set[Pid]:
    """Kill all apart from those that may only wait for the end of the others; returns these.

    Raises OSError at EMFILE and the like.
    """
    family = living_descendants(living_descendants(()))
    until = time.monotonic() + LOOK_SECONDS
    spared: set[Pid] = set()
    for process in processes:
        pids = process.members(family)
        helpers = [pid for pid in pids if pid != process.identity]
        waiting = {pid for pid in helpers if only_waits(pid.number, until)}
        spared |= waiting
        if not waiting:
            process.send(signal.SIGKILL)
        for pid in pids if waiting else ():
            if pid not in waiting:
                pid.send(signal.SIGKILL)
    return spared
