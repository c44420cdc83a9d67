"""End whatever is still there: descendants that escaped, and what an earlier start left behind."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

import anyio

from ascend_supervisor.plumbing import proc
from ascend_supervisor.plumbing.children import Children

LOOK_AGAIN_SECONDS = 0.001
LOOK_AGAIN_SECONDS_AT_MOST = 0.05
"""The death of a process that is not our child makes no event: look again, ever less often."""
TELL_SECONDS = 3.0
"""How often it is told who will not end."""
FREEZE_ROUNDS = 100
OWNER = "ASCEND_SUPERVISOR_OWNER"
"""The variable in every rank's environment that says whose it is: ``PID.START@STATE_FILE``."""


@dataclass(frozen=True, slots=True)
class Swept:
    """Pids that were killed, and descriptions of those that even SIGKILL did not end."""

    killed: tuple[int, ...] = ()
    left: tuple[str, ...] = ()


async def sweep_descendants(
    children: Children, seconds: float, tell_left: Callable[[tuple[str, ...]], None]
) -> Swept:
    """Kill all our descendants, wherever they fled to; give up after ``seconds``.

    ``tell_left`` hears every few seconds who will not end (a process inside a driver, say).
    """

    def remaining() -> list[int]:
        # With the zombies: who changes its parent during one look may be missed by it, but hangs
        # below us in the next; only when we have no child at all there is nobody to miss.
        children.reap()
        return proc.descendants(os.getpid())

    with children.room_to_look():
        return await _sweep(remaining, seconds, tell_left)


async def sweep_leftovers(
    place: str, seconds: float, tell_left: Callable[[tuple[str, ...]], None]
) -> Swept:
    """Kill what a supervisor that is no more started in this ``place`` (its state file's path)."""

    def remaining() -> list[int]:
        return [
            pid
            for pid in proc.pids()
            if _is_left_of(place, pid) and not proc.is_zombie(pid) and pid != os.getpid()
        ]

    return await _sweep(remaining, seconds, tell_left)


def owner_mark(place: str) -> str:
    """The value of OWNER for what this process starts."""
    return f"{os.getpid()}.{proc.start_time(os.getpid())}@{place}"


def _is_left_of(place: str, pid: int) -> bool:
    mark = proc.environ(pid).get(OWNER.encode(), b"").decode(errors="surrogateescape")
    owner, _, where = mark.partition("@")
    if where != place or not proc.in_our_pid_namespace(pid):
        return False
    owner_pid, _, owner_start = owner.partition(".")
    if not (owner_pid.isdecimal() and owner_start.isdecimal()):
        return False
    return proc.start_time(int(owner_pid)) != int(owner_start)


async def _sweep(
    remaining: Callable[[], list[int]], seconds: float, tell_left: Callable[[tuple[str, ...]], None]
) -> Swept:
    killed: set[int] = set()
    pause = LOOK_AGAIN_SECONDS
    end = time.monotonic() + seconds
    tell_at = time.monotonic() + TELL_SECONDS
    while True:
        found: list[int] = []
        blind: tuple[str, ...] = ()
        try:
            found = _freeze(remaining)
            alive = [pid for pid in found if not proc.is_zombie(pid)]
            _signal(alive, signal.SIGKILL)
            killed.update(alive)
        except OSError as error:  # no file can be opened to look with
            blind = (f"whoever is left, which cannot be seen: {error.strerror}",)
        if not found and not blind:
            return Swept(tuple(sorted(killed)))
        await anyio.sleep(pause)
        pause = min(pause * 2, LOOK_AGAIN_SECONDS_AT_MOST)
        if time.monotonic() > tell_at:
            tell_left((*map(proc.description, found), *blind))
            tell_at += TELL_SECONDS
        if time.monotonic() > end:
            return Swept(tuple(sorted(killed)), (*map(proc.description, found), *blind))


def _freeze(remaining: Callable[[], list[int]]) -> list[int]:
    """Stop all that live, until nobody new appears: what is stopped cannot fork away from us."""
    stopped: set[int] = set()
    for _ in range(FREEZE_ROUNDS):
        new = set(remaining()) - stopped
        if not new:
            break
        _signal(new, signal.SIGSTOP)
        stopped |= new
    return sorted(stopped)


def _signal(targets: Iterable[int], number: int) -> None:
    for pid in targets:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
