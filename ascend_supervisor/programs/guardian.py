"""Kills what we started when we die; a separate program that imports nothing of ours.

    python -I -S guardian.py NUMBER MARK

The kernel signals a process only when its own parent dies (PR_SET_PDEATHSIG), and clears this
setting when a program with privileges of its own is executed (setuid, setgid, file capabilities).
So the workers of a launcher, and such ranks, would outlive us. This program waits for the end of
its stdin, which comes when the supervisor dies. Then it kills all processes that have MARK in their
environment, or NUMBER as their soft limit of file locks (see Mark in processes/ownership), and all
in the sessions that lines on stdin have named:

    own PID START      started by us; its end will be reported
    worker PID START   started by a launcher; its end will not be reported
    ended PID
    fence SECONDS      kill at this time of CLOCK_BOOTTIME; a later line moves it
    done

The last line says that nothing should be left: then one scan is enough. At the fence the supervisor
has lost the other servers of the job for too long and has not ended its ranks, because it is frozen
or stuck. Then everything is killed, and the guardian goes on: the supervisor may come back.

What may only wait for the end of the others, such as Python's resource tracker, has a second for
it: else the next start would find what the killed ranks had in shared memory. In a large family not
all are looked at.

It stays until nothing is left. It holds /proc/PID/stat open for every process that does not end
within a second, so that the next supervisor can see which ones.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from contextlib import suppress
from math import inf

NAME = "asv-guardian"
"""Its name in /proc/PID/comm."""
LOOK_AGAIN_SECONDS = 0.05
QUIET_LOOKS = 3
"""How many scans in a row must find nothing: during an exec a process has no environment."""
SPARED_LOOKS = 20
"""For so many scans, what may only wait for the end of the others is left alone."""
DESCRIPTOR_SECONDS = 0.25
"""How long a scan may look for what only waits: a descriptor takes up to 30 µs."""
KEEP_SHARED_MEMORY = ("/torch_shm_manager",)
"""Programs that serve processes until these have ended, and then remove their shared memory."""
KEEP_LOOKS = 60
"""The same for these: PyTorch's waits 2 s for another process to serve."""
TELL_LOOKS = 20
MOST_LOOKS = 600
"""A process that is left after these is inside a driver, or foreign: then scan seldom."""
SELDOM_SECONDS = 1.0
FENCE_LOOK_SECONDS = 1.0
"""How often the fence is compared with the clock, which goes on while the machine sleeps."""

DEAD = (b"Z", b"X")
"""States in /proc/PID/stat; a process whose main thread is dead may have others that live."""

Marks = tuple[bytes, bytes]
"""The number, and the variable with its value."""
ProcessKey = tuple[int, int]
"""Pid, and start in clock ticks: a number alone is soon reused."""


def content(path: str) -> bytes:
    """Empty if it cannot be read."""
    with suppress(OSError), open(path, "rb") as file:  # noqa: PTH123  (pathlib costs half the start)
        return file.read()
    return b""


def fields_of(place: str) -> list[bytes]:
    return content(f"{place}/stat").rpartition(b")")[2].split()


def stat(pid: int) -> tuple[ProcessKey, int] | None:
    """Which process has this number, and its session; None for a zombie."""
    fields = fields_of(f"/proc/{pid}")
    if not fields or (fields[0] in DEAD and living_thread(pid, fields) is None):
        return None
    return (pid, int(fields[19])), int(fields[3])


def living_thread(pid: int, fields: list[bytes]) -> str | None:
    """Where a thread is shown that has outlived the main thread; None if there is none."""
    if fields[0] not in DEAD or int(fields[17]) == 1:
        return None
    with suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            found = fields_of(f"/proc/{pid}/task/{name}")
            if found and found[0] not in DEAD:
                return f"/proc/{pid}/task/{name}"
    return None


def living() -> list[tuple[ProcessKey, int]]:
    names = os.listdir("/proc")  # noqa: PTH208
    return [found for name in names if name.isdigit() and (found := stat(int(name))) is not None]


class Sessions:
    """A session is ours while a process that was seen in it is still in it."""

    def __init__(self) -> None:
        self._seen: dict[int, set[ProcessKey]] = {}
        self._running: set[int] = set()
        """Sessions whose leader was started by us, with no end reported yet."""

    def told(self, lines: list[str]) -> None:
        """Scan once for all lines that came together: a scan costs more with more processes."""
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
            self.members()  # first: no other member may have been seen yet
            self._running.difference_update(ended)

    def members(self) -> set[ProcessKey]:
        """All processes in them now; empty sessions are forgotten."""
        found: dict[int, set[ProcessKey]] = {}
        for process, session in living():
            if session in self._seen:
                found.setdefault(session, set()).add(process)
        for session, seen in list(self._seen.items()):
            here = found.get(session, set())
            led = next((process for process in here if process[0] == session), None)
            # Its leader may have died with us a moment ago; its number was not reused yet.
            just_died = session in self._running and led is None
            if here & seen or (here and just_died):
                self._seen[session] = here
            elif session not in self._running or led is not None:
                del self._seen[session]
        self._running &= set(self._seen)
        return {process for here in self._seen.values() for process in here if stat(process[0])}


def marked(marks: Marks) -> set[ProcessKey]:
    """The processes that bear one of them."""
    number, variable = marks
    return {
        process
        for process, _ in living()
        if limit_of_locks(process[0]) == number or variable in environ(process[0]).split(b"\0")
    }


def limit_of_locks(pid: int) -> bytes:
    return b"".join(
        content(f"/proc/{pid}/limits").partition(b"Max file locks")[2].split(None, 1)[:1]
    )


def environ(pid: int) -> bytes:
    own = f"/proc/{pid}"
    if found := content(f"{own}/environ"):
        return found
    fields = fields_of(own)
    other = living_thread(pid, fields) if fields else None
    return b"" if other is None else content(f"{other}/environ")


def send(process: ProcessKey, number: int) -> None:
    found = stat(process[0])
    if found is not None and found[0] == process:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process[0], number)


def end_all(marks: Marks, sessions: Sessions, quiet_looks: int) -> None:
    """Repeat until this many scans in a row find nothing."""
    quiet = looks = 0
    held: dict[ProcessKey, int] = {}
    spared: set[ProcessKey] = set()
    while True:
        found = marked(marks) | sessions.members()
        spared = waiting(found, spared, looks)
        for number in (signal.SIGSTOP, signal.SIGKILL):  # a stopped process cannot fork
            for process in found - spared:
                send(process, number)
        quiet = 0 if found else quiet + 1
        looks += 1
        if quiet >= quiet_looks:
            return
        if looks >= TELL_LOOKS:
            hold(found, held)
        time.sleep(LOOK_AGAIN_SECONDS if looks < MOST_LOOKS else SELDOM_SECONDS)


def waiting(found: set[ProcessKey], before: set[ProcessKey], looks: int) -> set[ProcessKey]:
    """Those that may only wait for the end of the others, and those that did so ``before``.

    Python's resource tracker closes its pipe before it removes anything.
    """
    until = time.monotonic() + DESCRIPTOR_SECONDS
    return {
        one
        for one in found
        if looks < (KEEP_LOOKS if keeps_memory(one[0]) else SPARED_LOOKS)
        and (one in before or (time.monotonic() < until and may_wait(one[0])))
    }


def keeps_memory(pid: int) -> bool:
    with suppress(OSError):
        return os.readlink(f"/proc/{pid}/exe").endswith(KEEP_SHARED_MEMORY)  # noqa: PTH115
    return False


def may_wait(pid: int) -> bool:
    """Whether it may only wait for the end of the others, as Python's resource tracker does.

    It reads a pipe, and apart from its output it holds none that others may read.
    """
    if keeps_memory(pid):
        return True
    reads = False
    for place in descriptors(pid):
        with suppress(OSError):  # it has closed this one since
            if not os.readlink(place).startswith("pipe:["):  # noqa: PTH115
                continue
            mode = os.lstat(place).st_mode  # that of the descriptor
            if mode & 0o200 and not place.endswith(("/1", "/2")):
                return False
            reads = reads or bool(mode & 0o400)
    return reads


def descriptors(pid: int) -> list[str]:
    place = f"/proc/{pid}/fd"
    with suppress(OSError):
        return [f"{place}/{number}" for number in os.listdir(place)]  # noqa: PTH208
    return []


def hold(found: set[ProcessKey], held: dict[ProcessKey, int]) -> None:
    """Show in our /proc/PID/fd which processes we wait for."""
    for process in held.keys() - found:
        os.close(held.pop(process))
    for process in found - held.keys():
        with suppress(OSError):
            held[process] = os.open(f"/proc/{process[0]}/stat", os.O_RDONLY)


def reads_before(fence: float) -> bool:
    """Whether stdin has something to read, or has ended, before the fence."""
    while True:
        left = fence - time.clock_gettime(time.CLOCK_BOOTTIME)
        pause = None if left == inf else max(0.0, min(left, FENCE_LOOK_SECONDS))
        if select.select((0,), (), (), pause)[0]:  # first: the fence may have moved
            return True
        if left <= 0:
            return False


def guard(marks: Marks) -> None:
    sessions = Sessions()
    rest, fence = "", inf
    while True:
        if not reads_before(fence):
            fence = inf
            end_all(marks, sessions, QUIET_LOOKS)
            continue
        data = os.read(0, 65536)
        *lines, rest = (rest + data.decode()).split("\n")
        fences = [float(line.split()[1]) for line in lines if line.startswith("fence ")]
        fence = fences[-1] if fences else fence
        sessions.told([line for line in lines if line.startswith(("own ", "worker ", "ended "))])
        if not data or "done" in lines:
            end_all(marks, sessions, QUIET_LOOKS if not data else 1)
            return


def main() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)  # signals to all are not for us: we end last
    with suppress(OSError), open("/proc/self/comm", "w") as file:  # noqa: PTH123
        file.write(NAME)
    guard((os.fsencode(sys.argv[1]), os.fsencode(sys.argv[2])))


if __name__ == "__main__":
    main()
