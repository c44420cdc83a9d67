"""End all that is left: escaped descendants, and processes of an earlier start."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import suppress
from functools import partial

import anyio
from msgspec import Struct

from ascend_supervisor.processes import proc
from ascend_supervisor.processes.children import Children
from ascend_supervisor.processes.descriptors import KEEP_SHARED_MEMORY, LOOK_SECONDS, only_waits
from ascend_supervisor.processes.left import Left, TellLeft, wait_for_left
from ascend_supervisor.processes.ownership import Known, Mark, Ownership
from ascend_supervisor.processes.pid import Pid
from ascend_supervisor.tasks.threads import aside

LOOK_AGAIN_SECONDS = 0.001
LOOK_AGAIN_SECONDS_AT_MOST = 0.05
"""The death of a process that is not our child causes no event: poll, at growing intervals."""
SPARED_SECONDS = 1.0
"""How long what may only wait for the end of the others is left alone; see KEEP_SHARED_MEMORY."""
IN_THE_KERNEL = "D"
FREEZE_ROUNDS = 100
QUIET_LOOKS = 3
"""How many scans in a row must find nothing if there may be foreign children: a scan can miss a
process that changes its parent meanwhile, and a process has no environment during an exec."""


Found = tuple[list[Pid], list[Pid]]
"""The processes found, zombies too, and those that were killed now."""


class Swept(Struct, frozen=True):
    """Pids that were killed, and descriptions of those that even SIGKILL did not end.

    These ``are_stuck`` if all of them wait in the kernel: they end when it lets them go.
    """

    killed: tuple[int, ...] = ()
    left: tuple[str, ...] = ()
    are_stuck: bool = False


class Spared:
    """Those that may only wait for the end of the others, for as long as they may need then.

    Some are known before.
    """

    def __init__(self, known: Iterable[Pid] = ()) -> None:
        self._began = time.monotonic()
        self._known = dict.fromkeys(known, True)

    def apart_from(self, pids: Iterable[Pid]) -> list[Pid]:
        """All others; raises OSError at EMFILE and the like."""
        now = time.monotonic()
        return [pid for pid in pids if not self._has(pid, now)]

    def _has(self, pid: Pid, now: float) -> bool:
        seconds = KEEP_SHARED_MEMORY.get(proc.program(pid.number), SPARED_SECONDS)
        if now >= self._began + seconds:
            return False
        if pid not in self._known:
            self._known[pid] = only_waits(pid.number, now + LOOK_SECONDS)
        return self._known[pid]


async def sweep_descendants(
    children: Children,
    ownership: Ownership,
    known: Known,
    seconds: float,
    tell_left: TellLeft,
) -> Swept:
    """Kill all descendants that are ours, in any session; give up after ``seconds``.

    What may only wait for the end of the others, such as Python's resource tracker, is killed last.

    What ``children`` has started itself is killed, too, and what a program has started that serves
    us, such as py-spy. But these are not among those that are returned as killed: no rank has left
    them behind. Nor are the members of ``known.groups``, which have just got SIGKILL and may need a
    moment to end. What serves the whole job is left alone (``Children.keep``).

    ``known`` holds at least the processes that we started ourselves. ``tell_left`` is called at
    growing intervals with those that do not end (such as a process inside a driver), and once more
    at the end of such a wait.
    """

    def remaining() -> list[Pid]:
        # Zombies count: a scan can miss a process that changes its parent meanwhile; only an empty
        # list of children proves that nothing is left.
        children.reap()
        return [pid for pid in ownership.ours(known) if not _is_kept(pid, children.kept)]

    async def end(spared: Spared) -> Found:
        # Before they are reaped: then nobody can tell any more whose the others were.
        started.update(children.started)
        found, killed = _end(remaining, spared)
        serving = started - {pid.number for pid in known.pids}
        return found, [
            pid
            for pid in killed
            if pid.number not in started and not _belongs(pid, serving, known.groups)
        ]

    started: set[int] = set()
    looks = QUIET_LOOKS if ownership.takes_in_strangers else 1
    with children.spare_descriptor():
        return await _sweep(end, looks, seconds, tell_left, known.waiting)


def _is_kept(pid: Pid, leaders: Collection[int]) -> bool:
    """Whether it is in the process group of one of these; raises OSError at EMFILE and the like."""
    found = proc.stat(pid.number) if leaders else None
    return found is not None and found.group in leaders


def _belongs(pid: Pid, sessions: Collection[int], groups: Collection[int]) -> bool:
    """Whether it is in one of these sessions or process groups; False if it cannot be seen."""
    with suppress(OSError):
        found = proc.stat(pid.number)
        return found is not None and (found.session in sessions or found.group in groups)
    return False


async def sweep_leftovers(mark: Mark, seconds: float, tell_left: TellLeft) -> Swept:
    """Kill the processes of dead supervisors with our state file (by ``mark``).

    What may only wait for the end of the others is killed last.
    """
    seen: set[Pid] = set()

    def remaining() -> list[Pid]:
        # A dying process has no environment any more: once seen, it counts until it has ended.
        numbers = list(proc.pids())
        marked = set(proc.started_with(os.fsencode(mark.variable), numbers))
        marked.update(pid for pid in numbers if mark.succeeds_number(proc.limit_of_locks(pid)))
        seen.update(pid for number in marked if (pid := _leftover(mark, number)) is not None)
        return [pid for pid in seen if pid.lives]

    # Not in the event loop: reading the environment of a process in a driver may block.
    return await _sweep(
        lambda spared: aside(partial(_end, remaining, spared)), 1, seconds, tell_left
    )


def _leftover(mark: Mark, number: int) -> Pid | None:
    """The process with this number, if a dead supervisor with our state file left it."""
    if not _is_left_by_another(mark, number):
        return None
    pid = Pid.of(number)
    if pid is None or number == os.getpid():
        return None
    return pid if _is_left_by_another(mark, number) and pid.lives else None


def _is_left_by_another(mark: Mark, pid: int) -> bool:
    value = proc.environ(pid).get(os.fsencode(mark.variable), b"")
    is_marked = mark.succeeds(os.fsdecode(value)) or mark.succeeds_number(proc.limit_of_locks(pid))
    return is_marked and proc.in_our_pid_namespace(pid)


async def _sweep(
    end_all: Callable[[Spared], Awaitable[Found]],
    looks: int,
    seconds: float,
    tell_left: TellLeft,
    waiting: Iterable[Pid] = (),
) -> Swept:
    """Repeat until ``looks`` scans in a row find nothing."""
    killed: set[int] = set()
    quiet = 0
    pause = LOOK_AGAIN_SECONDS
    spared = Spared(waiting)
    with wait_for_left(seconds, tell_left) as wait:
        while True:
            found: list[Pid] = []
            blind: tuple[str, ...] = ()
            try:
                found, ended = await end_all(spared)
                killed.update(pid.number for pid in ended)
            except OSError as error:  # no file can be opened to read /proc
                blind = (f"whoever is left, which cannot be seen: {error.strerror}",)
            quiet = 0 if found or blind else quiet + 1
            if quiet == looks:
                return Swept(tuple(sorted(killed)))
            await anyio.sleep(pause)
            pause = min(pause * 2, LOOK_AGAIN_SECONDS_AT_MOST)
            if wait.is_due() and (found or blind):
                left = (*await _descriptions(found), *blind)
                tell_left(Left(left, wait.told(), seconds))
            if wait.waited > seconds:
                left = (*await _descriptions(found), *blind)
                return Swept(tuple(sorted(killed)), left, not blind and _are_stuck(found))


def _are_stuck(pids: Iterable[Pid]) -> bool:
    """Others may run on: of another user, for instance, who has not got SIGKILL."""
    with suppress(OSError):
        found = [proc.stat(pid.number) for pid in pids]
        return all(one is None or one.is_dead or one.state == IN_THE_KERNEL for one in found)
    return False


async def _descriptions(pids: Iterable[Pid]) -> tuple[str, ...]:
    return await aside(lambda: tuple(proc.description(pid.number) for pid in pids))


def _end(remaining: Callable[[], list[Pid]], spared: Spared) -> Found:
    """Freeze, then kill, without an await: a cancellation must not leave frozen processes."""
    found: set[Pid] = set()

    def doomed() -> list[Pid]:
        seen = remaining()
        found.update(seen)
        return spared.apart_from(seen)

    alive = [pid for pid in _freeze(doomed) if pid.lives]
    _send(alive, signal.SIGKILL)
    return sorted(found), alive


def _freeze(remaining: Callable[[], list[Pid]]) -> list[Pid]:
    """Stop all live processes until no new one appears: a stopped process cannot fork."""
    stopped: set[Pid] = set()
    for _ in range(FREEZE_ROUNDS):
        new = set(remaining()) - stopped
        if not new:
            break
        _send(new, signal.SIGSTOP)
        stopped |= new
    return sorted(stopped)


def _send(targets: Iterable[Pid], number: int) -> None:
    for pid in targets:
        pid.send(number)
