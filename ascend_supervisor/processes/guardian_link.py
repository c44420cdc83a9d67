"""The link to the guardian, which kills our processes if we are killed: messages and its end.

The program itself is programs/guardian.py.
"""

from __future__ import annotations

import os
import re
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import anyio

from ascend_supervisor.processes import proc
from ascend_supervisor.processes.descriptors import open_files
from ascend_supervisor.processes.left import Left, TellLeft, wait_for_left
from ascend_supervisor.processes.ownership import Mark
from ascend_supervisor.processes.pid import Pid
from ascend_supervisor.tasks.threads import aside

NAME = "asv-guardian"
LOOK_AGAIN_SECONDS = 0.02
HELD = re.compile(r"/proc/(\d+)/stat", re.ASCII)
STOPPED = "T"
"""The state in /proc/PID/stat after SIGSTOP."""
DISMISS_SECONDS = 1.0
DISMISS_LOOK_SECONDS = 0.002


class Guardian:
    """``pipe``: the stdin of the guardian with ``mark``, which no other process may hold.

    Both are None without a guardian.

    It never blocks: a message that does not fit into the pipe is lost. A leader is None if its
    start time is unknown: then the guardian knows its processes by our mark only.
    """

    def __init__(self, pipe: int | None = None, mark: Mark | None = None) -> None:
        self._pipe = pipe
        self._mark = mark
        if pipe is not None:
            os.set_blocking(pipe, False)

    def watch(self, leader: Pid | None) -> None:
        """All processes in the session of this one, which we started, are to end with us."""
        if leader is not None:
            self._tell(f"own {leader.number} {leader.start}")

    def watch_worker(self, leader: Pid) -> None:
        """The same for a process that a launcher has started."""
        self._tell(f"worker {leader.number} {leader.start}")

    def ended(self, leader: Pid | None) -> None:
        """It has ended; only the processes now in its session are left of it."""
        if leader is not None:
            self._tell(f"ended {leader.number}")

    def fence(self, at: float) -> None:
        """All that is ours is to end at this time of CLOCK_BOOTTIME (seconds), unless it moves.

        math.inf takes the fence away.
        """
        self._tell(f"fence {at}")

    async def dismiss(self) -> None:
        """Nothing of ours is left: return when the guardian has ended, or after DISMISS_SECONDS.

        If somebody has stopped it (SIGSTOP), it goes on and ends soon after us.
        """
        if self._pipe is None or self._mark is None:
            return
        self._tell("done")
        poll = select.poll()
        poll.register(self._pipe, 0)
        with anyio.move_on_after(DISMISS_SECONDS):
            while not poll.poll(0):  # noqa: ASYNC110  (POLLERR: the other end is closed)
                await anyio.sleep(DISMISS_LOOK_SECONDS)
            return
        mark = self._mark
        with suppress(OSError):  # without a descriptor for /proc nobody can be looked for
            await aside(
                lambda: _continue(_guardians(mark.variable, lambda value: value == mark.value))
            )

    def _tell(self, line: str) -> None:
        if self._pipe is not None:
            with suppress(OSError):
                os.write(self._pipe, f"{line}\n".encode())


async def earlier_guardians(mark: Mark, seconds: float, tell_left: TellLeft) -> tuple[str, ...]:
    """Wait until the guardians of earlier supervisors with our state file have finished.

    Returns descriptions of processes that they could not end within ``seconds``.
    """
    with wait_for_left(seconds, tell_left) as wait:
        await aside(lambda: _continue(_guardians(mark.variable, mark.succeeds)))
        while left := await aside(lambda: tuple(_left(mark))):
            if wait.is_due():
                tell_left(Left(left, wait.told(), seconds))
            if wait.waited > seconds:
                break
            await anyio.sleep(LOOK_AGAIN_SECONDS)
    return left


def _left(mark: Mark) -> Iterator[str]:
    """The processes that guardians wait for; the guardian itself if it shows none yet."""
    for number in _guardians(mark.variable, mark.succeeds):
        held = map(HELD.fullmatch, open_files(number))
        for pid in [int(found[1]) for found in held if found] or [number]:
            yield proc.description(pid)


def _guardians(variable: str, is_meant: Callable[[str], bool]) -> Iterator[int]:
    """Those whose last word is ``variable`` with a value that is meant."""
    # Before it has its name, it is setsid, then Python.
    names = {NAME, "setsid", Path(sys.executable).name[:15]}
    numbers = [number for number in proc.pids() if proc.name(number) in names]
    for number, words in zip(numbers, proc.command_lines(numbers), strict=True):
        name, _, value = "".join(words[-1:]).partition("=")
        if name == variable and is_meant(value):
            yield number


def _continue(guardians: Iterator[int]) -> None:
    """Let those go on that were stopped, if they are of our user: others may only look like one."""
    for number in guardians:
        guardian, stat = Pid.of(number), proc.stat(number)
        if guardian is None or stat is None or stat.state != STOPPED:
            continue
        with suppress(OSError):
            if Path(f"/proc/{number}").stat().st_uid == os.geteuid():
                guardian.send(signal.SIGCONT)
