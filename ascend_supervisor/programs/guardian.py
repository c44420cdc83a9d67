"""Ends what we have started when we are no more; a program of its own that imports nothing of ours.

    python -I -S guardian.py MARK

The kernel tells a process of the death of its own parent only (PR_SET_PDEATHSIG), and forgets to
when a program with privileges of its own is executed (setuid, setgid, file capabilities). So the
workers of a launcher, and such ranks, would outlive us. This program waits for the end of its
stdin, which is the death of whoever holds the other end, and kills everything that has MARK in its
environment, and all that is in the sessions of which it was told there, in lines:

    own PID START      started by us; that it has ended will be told
    worker PID START   started by a launcher; that it has ended will not be told
    ended PID
    done

The last says that nothing should be left: then one look is enough.

It stays until nothing is left. Of what does not end within a second it holds /proc/PID/stat open:
there whoever starts next can see it.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress

NAME = "asv-guardian"
"""Its name in /proc/PID/comm."""
LOOK_AGAIN_SECONDS = 0.05
QUIET_LOOKS = 3
"""So often in a row nobody is found: a process in the midst of an exec has no environment."""
TELL_LOOKS = 20
MOST_LOOKS = 600
"""Who is still there after these is inside a driver, or somebody else's: then look seldom."""
SELDOM_SECONDS = 1.0

Process = tuple[int, int]
"""Pid, and start in clock ticks: a number alone is soon given to another process."""


def stat(pid: int) -> tuple[Process, int] | None:
    """Which process has this number, and its session; None for a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123  (pathlib costs half the start)
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    if not fields or fields[0] in (b"Z", b"X"):
        return None
    return (pid, int(fields[19])), int(fields[3])


def living() -> list[tuple[Process, int]]:
    names = os.listdir("/proc")  # noqa: PTH208
    return [found for name in names if name.isdigit() and (found := stat(int(name))) is not None]


class Sessions:
    """A session is ours while one of those who were seen in it is there."""

    def __init__(self) -> None:
        self._seen: dict[int, set[Process]] = {}
        self._running: set[int] = set()
        """Those whose leader was started by us and had not ended when we were last told."""

    def told(self, lines: list[str]) -> None:
        """What has come together is looked at once: a look costs more the more processes run."""
        ended = []
        for line in lines:
            what, *numbers = line.split()
            pid, *start = map(int, numbers)
            if what == "ended":
                ended.append(pid)
            else:
                self._seen[pid] = {(pid, start[0])}
                if what == "own":
                    self._running.add(pid)
        if ended:
            self.members()  # first: nobody else may have been seen with them yet
            self._running.difference_update(ended)

    def members(self) -> set[Process]:
        """All that are in them now; those of which nobody is left are forgotten."""
        found: dict[int, set[Process]] = {}
        for process, session in living():
            if session in self._seen:
                found.setdefault(session, set()).add(process)
        for session, seen in list(self._seen.items()):
            here = found.get(session, set())
            led = next((process for process in here if process[0] == session), None)
            # Its leader may have died with us a moment ago; nobody had its number since.
            just_died = session in self._running and led is None
            if here & seen or (here and just_died):
                self._seen[session] = here
            elif session not in self._running or led is not None:
                del self._seen[session]
        self._running &= set(self._seen)
        return {process for here in self._seen.values() for process in here if stat(process[0])}


def marked(mark: bytes) -> set[Process]:
    """The processes with ``mark``, a variable with its value, in their environment."""
    found = set()
    for process, _ in living():
        with suppress(OSError), open(f"/proc/{process[0]}/environ", "rb") as file:  # noqa: PTH123
            if mark in file.read().split(b"\0"):
                found.add(process)
    return found


def send(process: Process, number: int) -> None:
    found = stat(process[0])
    if found is not None and found[0] == process:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process[0], number)


def end_all(mark: bytes, sessions: Sessions, quiet_looks: int) -> None:
    """Until so many looks in a row have found nobody."""
    quiet = looks = 0
    held: dict[Process, int] = {}
    while True:
        found = marked(mark) | sessions.members()
        for number in (signal.SIGSTOP, signal.SIGKILL):  # what is stopped cannot fork away
            for process in found:
                send(process, number)
        quiet = 0 if found else quiet + 1
        looks += 1
        if quiet >= quiet_looks:
            return
        if looks >= TELL_LOOKS:
            hold(found, held)
        time.sleep(LOOK_AGAIN_SECONDS if looks < MOST_LOOKS else SELDOM_SECONDS)


def hold(found: set[Process], held: dict[Process, int]) -> None:
    """Show in /proc/PID/fd whom we wait for."""
    for process in held.keys() - found:
        os.close(held.pop(process))
    for process in found - held.keys():
        with suppress(OSError):
            held[process] = os.open(f"/proc/{process[0]}/stat", os.O_RDONLY)


def main() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)  # who tells all to stop does not mean us: we end last
    with suppress(OSError), open("/proc/self/comm", "w") as file:  # noqa: PTH123
        file.write(NAME)
    sessions = Sessions()
    rest = ""
    while data := os.read(0, 65536):
        *lines, rest = (rest + data.decode()).split("\n")
        is_done = "done" in lines
        sessions.told([line for line in lines if line != "done"])
        if is_done:
            end_all(os.fsencode(sys.argv[1]), sessions, 1)
            return
    end_all(os.fsencode(sys.argv[1]), sessions, QUIET_LOOKS)


if __name__ == "__main__":
    main()
