"""Ends what we have started when we are no more; a program of its own that imports nothing of ours.

    python -I -S guardian.py MARK

The kernel tells a process of the death of its own parent only (PR_SET_PDEATHSIG), so the workers
of a launcher would outlive us. This program waits for the end of its stdin, which is the death of
whoever holds the other end, and kills everything that has MARK in its environment.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress

LOOK_AGAIN_SECONDS = 0.05
QUIET_LOOKS = 3
"""So often in a row nobody is found: a process in the midst of an exec has no environment."""
MOST_LOOKS = 600
"""Who is still there after these is inside a driver, and will not end for another signal."""


def marked(mark: bytes) -> list[int]:
    """The pids of the processes with ``mark``, a variable with its value, that are no zombies."""
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208  (pathlib costs half the start)
        if name.isdigit():
            with suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:  # noqa: PTH123
                if mark in file.read().split(b"\0"):
                    found.append(int(name))
    return found


def end_all(mark: bytes) -> None:
    quiet = 0
    for _ in range(MOST_LOOKS):
        found = marked(mark)
        for number in (signal.SIGSTOP, signal.SIGKILL):  # what is stopped cannot fork away
            for pid in found:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
        quiet = 0 if found else quiet + 1
        if quiet == QUIET_LOOKS:
            return
        time.sleep(LOOK_AGAIN_SECONDS)


def main() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)  # who tells all to stop does not mean us: we end last
    while os.read(0, 1):
        pass
    end_all(os.fsencode(sys.argv[1]))


if __name__ == "__main__":
    main()
