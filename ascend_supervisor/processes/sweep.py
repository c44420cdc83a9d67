"""End whatever is still there: descendants that escaped, and what an earlier start left behind."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial

import anyio

from ascend_supervisor.processes import proc
from ascend_supervisor.processes.children import Children
from ascend_supervisor.processes.ownership import OWNER, Known, Ownership, is_mark_of_the_dead
from ascend_supervisor.processes.pid import Pid
from ascend_supervisor.tasks.threads import aside

LOOK_AGAIN_SECONDS = 0.001
LOOK_AGAIN_SECONDS_AT_MOST = 0.05
"""The death of a process that is not our child makes no event: look again, ever less often."""
TELL_SECONDS = 3.0
"""How often it is told who will not end."""
FREEZE_ROUNDS = 100
QUIET_LOOKS = 3
"""So many in a row that find nobody, where something else than finding no child must end the sweep:
who changes its parent during a look may be missed by it, and an exec has no environment."""


Found = tuple[list[Pid], list[Pid]]
"""Who was found, zombies too, and who of them was killed now."""


@dataclass(frozen=True, slots=True)
class Swept:
    """Pids that were killed, and descriptions of those that even SIGKILL did not end."""

    killed: tuple[int, ...] = ()
    left: tuple[str, ...] = ()


async def sweep_descendants(
    children: Children,
    ownership: Ownership,
    known: Known,
    seconds: float,
    tell_left: Callable[[tuple[str, ...]], None],
) -> Swept:
    """Kill all descendants that are ours, wherever they fled to; give up after ``seconds``.

    ``known`` holds those at least that we started ourselves. ``tell_left`` hears every few seconds
    who will not end (a process inside a driver, say).
    """

    def remaining() -> list[Pid]:
        # With the zombies: a scan can miss a process that changes its parent meanwhile; only an
        # empty list of children proves that nothing is left.
        children.reap()
        return ownership.ours(known)

    async def end() -> Found:
        return _end(remaining)

    looks = QUIET_LOOKS if ownership.takes_in_strangers else 1
    with children.spare_descriptor():
        return await _sweep(end, looks, seconds, tell_left)


async def sweep_leftovers(
    place: str, seconds: float, tell_left: Callable[[tuple[str, ...]], None]
) -> Swept:
    """Kill what a supervisor that is no more started in this ``place`` (its state file's path)."""
    seen: set[Pid] = set()

    def remaining() -> list[Pid]:
        # Who is about to die has no environment any more: once seen, it counts until it has died.
        seen.update(pid for number in proc.pids() if (pid := _leftover(place, number)) is not None)
        return [pid for pid in seen if pid.lives]

    # Not in the event loop: what is stuck in a driver may not show its environment.
    return await _sweep(lambda: aside(partial(_end, remaining)), 1, seconds, tell_left)


def _leftover(place: str, number: int) -> Pid | None:
    """The process with this number, if a supervisor of this ``place`` has left it behind."""
    pid = Pid.of(number)
    if pid is None or number == os.getpid():
        return None
    return pid if _is_left_of(place, number) and pid.lives else None


def _is_left_of(place: str, pid: int) -> bool:
    mark = proc.environ(pid).get(OWNER.encode(), b"").decode(errors="surrogateescape")
    return is_mark_of_the_dead(mark, place) and proc.in_our_pid_namespace(pid)


async def _sweep(
    end_all: Callable[[], Awaitable[Found]],
    looks: int,
    seconds: float,
    tell_left: Callable[[tuple[str, ...]], None],
) -> Swept:
    """Until ``looks`` in a row have found nobody."""
    killed: set[int] = set()
    quiet = 0
    pause = LOOK_AGAIN_SECONDS
    end = time.monotonic() + seconds
    tell_at = time.monotonic() + TELL_SECONDS
    while True:
        found: list[Pid] = []
        blind: tuple[str, ...] = ()
        try:
            found, ended = await end_all()
            killed.update(pid.number for pid in ended)
        except OSError as error:  # no file can be opened to look with
            blind = (f"whoever is left, which cannot be seen: {error.strerror}",)
        quiet = 0 if found or blind else quiet + 1
        if quiet == looks:
            return Swept(tuple(sorted(killed)))
        await anyio.sleep(pause)
        pause = min(pause * 2, LOOK_AGAIN_SECONDS_AT_MOST)
        if time.monotonic() > tell_at:
            tell_left((*await _descriptions(found), *blind))
            tell_at += TELL_SECONDS
        if time.monotonic() > end:
            return Swept(tuple(sorted(killed)), (*await _descriptions(found), *blind))


async def _descriptions(pids: Iterable[Pid]) -> tuple[str, ...]:
    return await aside(lambda: tuple(proc.description(pid.number) for pid in pids))


def _end(remaining: Callable[[], list[Pid]]) -> Found:
    """Freeze, then kill, in one go: nobody may be left frozen when we are cancelled between."""
    found = _freeze(remaining)
    alive = [pid for pid in found if pid.lives]
    _send(alive, signal.SIGKILL)
    return found, alive


def _freeze(remaining: Callable[[], list[Pid]]) -> list[Pid]:
    """Stop all that live, until nobody new appears: what is stopped cannot fork away from us."""
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
