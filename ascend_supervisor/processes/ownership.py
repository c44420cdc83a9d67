"""Which of our descendants we may end. This only reads /proc, and signals nothing."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from zlib import crc32

from msgspec import Struct

from ascend_supervisor.processes import proc
from ascend_supervisor.processes.descriptors import LOOK_SECONDS, holds_pipe
from ascend_supervisor.processes.pid import Pid

PID_BITS, START_BITS, PLACE_BITS = 22, 20, 20
"""Of a mark as a number: a pid, the lowest bits of its start and of a checksum of its place."""
ENVIRON_SECONDS = 1.0
"""For how long a look reads environments. Where a process does not answer, it takes a second more.

That process is not waited for again, so the next look gets further.
"""


class Mark(Struct, frozen=True):
    """The variable in a process's environment that names its supervisor, as ``PID.START@PLACE``.

    A program can overwrite its environment (setproctitle does). So our processes bear the mark as a
    ``number``, too: as their soft RLIMIT_LOCKS, which the kernel has had no use for since 2.4.25.
    It is inherited whatever they execute, with more privileges too, and everybody may read it.
    """

    variable: str
    value: str

    @classmethod
    def ours(cls, variable: str, place: str) -> Mark:
        """The mark of the processes that this process starts."""
        return cls(variable, f"{os.getpid()}.{proc.start_time(os.getpid())}@{place}")

    @property
    def entry(self) -> str:
        return f"{self.variable}={self.value}"

    @property
    def number(self) -> int:
        """It has 63 bits, the first of which is set: nobody chooses such a limit."""
        owner, _, place = self.value.partition("@")
        pid, _, start = owner.partition(".")
        parts = (crc32(os.fsencode(place)), _int(start), _int(pid))
        number = 1
        for part, bits in zip(parts, (PLACE_BITS, START_BITS, PID_BITS), strict=True):
            number = number << bits | _lowest(part, bits)
        return number

    def is_on(self, environ: Mapping[bytes, bytes]) -> bool:
        return environ.get(os.fsencode(self.variable)) == os.fsencode(self.value)

    def succeeds(self, value: str) -> bool:
        """Whether ``value`` is the mark of a dead supervisor in the same place."""
        owner, _, place = value.partition("@")
        number, _, start = owner.partition(".")
        is_of_place = place == self.value.partition("@")[2]
        if not (is_of_place and number.isdecimal() and start.isdecimal()):
            return False
        return not Pid(int(number), int(start)).lives

    def succeeds_number(self, number: int | None) -> bool:
        """Whether ``number`` is that of a dead supervisor in the same place."""
        bits = START_BITS + PID_BITS
        if number is None or number >> bits != self.number >> bits:
            return False
        owner = proc.stat(_lowest(number, PID_BITS))
        start = _lowest(number >> PID_BITS, START_BITS)
        return owner is None or owner.is_dead or _lowest(owner.start, START_BITS) != start


def _lowest(number: int, bits: int) -> int:
    return number & ((1 << bits) - 1)


def _int(digits: str) -> int:
    """0 for a start that could not be read."""
    return int(digits) if digits.isdecimal() else 0


class Known(Struct, frozen=True):
    """Processes that are ours, living or dead, and the pipes they write to (``pipe:[4026]``).

    ``groups`` are the process groups that are signalled together with them. ``waiting`` may only
    wait for the end of the others, some of which were killed.
    """

    pids: frozenset[Pid] = frozenset()
    pipes: frozenset[str] = frozenset()
    groups: frozenset[int] = frozenset()
    waiting: frozenset[Pid] = frozenset()


class Ownership(Struct, frozen=True):
    """``mark`` is ours; ``before`` are earlier descendants, which are not ours."""

    mark: Mark
    before: frozenset[Pid]

    @classmethod
    def from_now_on(cls, mark: Mark) -> Ownership:
        """To be called before we start any process that is to be ended."""
        below = map(Pid.of, proc.descendants(os.getpid()))
        return cls(mark, frozenset(pid for pid in below if pid is not None))

    @property
    def takes_in_strangers(self) -> bool:
        """Whether foreign orphans can become our children.

        PID 1 adopts those of ``kubectl exec``; we adopt those of the children that we had before.
        """
        return os.getpid() == 1 or bool(self.before)

    def ours(self, known: Known, root: Path = proc.PROC) -> list[Pid]:
        """All descendants that are ours, zombies too; raises OSError at EMFILE and the like.

        If orphans may be foreign, a process is ours if it is ``known`` or below a known one, is in
        the session of one, holds its pipe, or has our mark.
        """
        return list(self._below_us(known, root))

    def _below_us(self, known: Known, root: Path) -> Iterator[Pid]:
        """Descendants of our processes are ours; not recursive, because a tree may be very deep."""
        parents = [(os.getpid(), not self.takes_in_strangers)]
        began = time.monotonic()
        while parents:
            parent, parent_is_ours = parents.pop()
            for number in proc.children(parent, root):
                stat = proc.stat(number, root)
                if stat is None:
                    continue
                pid = Pid(number, stat.start)
                if pid in self.before:
                    continue
                certain = parent_is_ours
                if stat.parent != parent:
                    # It was adopted since it was listed, or its number is a stranger's by now.
                    if not proc.is_below(number, os.getpid(), root):
                        continue
                    certain = not self.takes_in_strangers
                is_ours = certain or self._shows_it(pid, stat, known, began, root)
                if is_ours:
                    yield pid
                parents.append((number, is_ours))

    def _shows_it(self, pid: Pid, stat: proc.Stat, known: Known, began: float, root: Path) -> bool:
        """``began`` is when the look began, a time of time.monotonic."""
        if pid in known.pids or _is_in_session_of(known.pids, stat):
            return True
        if stat.is_dead:
            return False
        if proc.limit_of_locks(pid.number, root) == self.mark.number:
            return True
        if holds_pipe(pid.number, known.pipes, began + LOOK_SECONDS, root):
            return True
        # Do not read the environment of a process stuck in a driver: the read would hang, too.
        if stat.state == "D" or time.monotonic() >= began + ENVIRON_SECONDS:
            return False
        return self.mark.is_on(proc.environ(pid.number, root))


def _is_in_session_of(known: frozenset[Pid], stat: proc.Stat) -> bool:
    if all(leader.number != stat.session for leader in known):
        return False
    leader = Pid.of(stat.session)
    return leader is None or leader in known  # else the number was reused
