"""The program that ends what we have started when we are killed: what we tell it, and its end.

The program itself is programs/guardian.py.
"""

from __future__ import annotations

import os
import re
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import anyio

from ascend_supervisor.processes import proc
from ascend_supervisor.processes.ownership import OWNER, is_mark_of_the_dead
from ascend_supervisor.processes.pid import Pid
from ascend_supervisor.tasks.threads import aside

NAME = "asv-guardian"
LOOK_AGAIN_SECONDS = 0.02
TELL_SECONDS = 3.0
HELD = re.compile(r"/proc/(\d+)/stat", re.ASCII)
DISMISS_SECONDS = 1.0
DISMISS_LOOK_SECONDS = 0.002


class Guardian:
    """``pipe``: its stdin, which nobody else may hold; None where there is no guardian.

    It never waits: what does not fit into the pipe is not told.
    """

    def __init__(self, pipe: int | None = None) -> None:
        self._pipe = pipe
        if pipe is not None:
            os.set_blocking(pipe, False)

    def watch(self, leader: Pid) -> None:
        """What is in the session of this process, which we have started, is to end with us."""
        self._tell(f"own {leader.number} {leader.start}")

    def watch_worker(self, leader: Pid) -> None:
        """The same for one that a launcher has started."""
        self._tell(f"worker {leader.number} {leader.start}")

    def ended(self, leader: Pid) -> None:
        """It has ended; what is still in its session now is all that is left of it."""
        self._tell(f"ended {leader.number}")

    async def dismiss(self) -> None:
        """Nothing of ours is left: return when it has ended too, or after DISMISS_SECONDS."""
        if self._pipe is None:
            return
        self._tell("done")
        poll = select.poll()
        poll.register(self._pipe, 0)
        with anyio.move_on_after(DISMISS_SECONDS):
            while not poll.poll(0):  # noqa: ASYNC110  (POLLERR: nobody holds the other end)
                await anyio.sleep(DISMISS_LOOK_SECONDS)

    def _tell(self, line: str) -> None:
        if self._pipe is not None:
            with suppress(OSError):
                os.write(self._pipe, f"{line}\n".encode())


async def earlier_guardians(
    place: str, seconds: float, tell_left: Callable[[tuple[str, ...]], None]
) -> tuple[str, ...]:
    """Wait until those of supervisors of this ``place`` that are no more have done their work.

    Gives descriptions of what they could not end within ``seconds``.
    """
    end = time.monotonic() + seconds
    tell_at = time.monotonic() + TELL_SECONDS
    while left := await aside(lambda: tuple(_left(place))):
        if time.monotonic() > tell_at:
            tell_left(left)
            tell_at += TELL_SECONDS
        if time.monotonic() > end:
            break
        await anyio.sleep(LOOK_AGAIN_SECONDS)
    return left


def _left(place: str) -> Iterator[str]:
    """Whom guardians wait for; the guardian itself where it does not show it yet."""
    names = {NAME, Path(sys.executable).name[:15]}  # it has to begin before it is named
    for number in proc.pids():
        if proc.name(number) not in names:
            continue
        variable, _, mark = "".join(proc.words(number)[-1:]).partition("=")
        if variable == OWNER and is_mark_of_the_dead(mark, place):
            held = map(HELD.fullmatch, proc.open_files(number))
            for pid in [int(found[1]) for found in held if found] or [number]:
                yield proc.description(pid)
