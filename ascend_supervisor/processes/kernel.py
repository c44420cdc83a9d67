"""Linux features for the processes below us: we adopt orphans, and ranks die with us.

Our cgroups say their limits, and whom the kernel has killed when memory ran out.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from ascend_supervisor.processes.guardian_link import Guardian
from ascend_supervisor.processes.ownership import Mark

PR_SET_CHILD_SUBREAPER = 36
"""linux/prctl.h, since Linux 3.4."""
RLIMIT_LOCKS = 10
"""asm-generic/resource.h; Python has no name for it."""
CONTROLLERS = frozenset({"memory", "pids"})
"""Of cgroup v1, each with a tree of its own."""


def become_subreaper() -> None:
    """From now on descendants whose parent dies become our children.

    Raises OSError where the kernel, or what stands in for it, lets no process do so.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(
            number,
            f"prctl(PR_SET_CHILD_SUBREAPER) fails ({os.strerror(number)}): expected Linux 3.4 or "
            "newer, and neither qemu-user nor a sandbox that forbids it",
        )


@contextmanager
def inherited(mark: Mark | None) -> Iterator[None]:
    """What is started meanwhile bears the number of ``mark``, if the hard limit has room for it.

    Without a mark it bears none, not even that of a supervisor above us.
    """
    soft, hard = resource.getrlimit(RLIMIT_LOCKS)
    with suppress(OSError, ValueError):
        resource.setrlimit(RLIMIT_LOCKS, (hard if mark is None else mark.number, hard))
    try:
        yield
    finally:
        with suppress(OSError, ValueError):
            resource.setrlimit(RLIMIT_LOCKS, (soft, hard))


GUARDIAN_SECONDS = 5.0
"""For its start, which takes milliseconds; a machine may stand still for longer."""


def start_guardian(program: Path, mark: Mark) -> Guardian:
    """Start ``program``, which kills all processes with ``mark`` in their environment when we die.

    It also kills the sessions that we report to it. PID 1 needs no guardian; without ``setsid``
    there is none. It must not become our descendant, so call this before become_subreaper, and
    before other code waits for children.
    """
    setsid = shutil.which("setsid")
    if os.getpid() == 1 or setsid is None:
        return Guardian()
    try:
        read_end, write_end = os.pipe()
    except OSError:
        return Guardian()
    words = ("--fork", sys.executable, "-I", "-S", str(program), str(mark.number), mark.entry)
    # Even if this fails or takes too long, it may run: then it must not take us for dead.
    with suppress(OSError, subprocess.SubprocessError), inherited(None):
        subprocess.run(
            (setsid, *words),
            stdin=read_end,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={},
            cwd="/",
            check=False,
            timeout=GUARDIAN_SECONDS,
        )
    os.close(read_end)
    return Guardian(write_end, mark)


MEMFD_CREATE = {"x86_64": 319, "aarch64": 279}
MFD_CLOEXEC = 1


def memory_file(content: bytes) -> int:
    """A descriptor from which ``content`` is read; raises OSError.

    Python has os.memfd_create only where it was built for glibc 2.27 or newer. Where the kernel,
    or a sandbox, has no such call either, it is a file on disk without a name.
    """
    number = MEMFD_CREATE.get(os.uname().machine)
    descriptor = -1 if number is None else ctypes.CDLL(None).syscall(number, b"event", MFD_CLOEXEC)
    if descriptor < 0:
        with tempfile.TemporaryFile(buffering=0) as file:
            descriptor = os.dup(file.fileno())
    if os.pwrite(descriptor, content, 0) < len(content):
        os.close(descriptor)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return int(descriptor)


def parent_death_prefix() -> tuple[str, ...]:
    """The words before a command that make the kernel kill it when we die; none if impossible.

    PID 1 needs none: the kernel kills the whole PID namespace with it. To be called before other
    code waits for children, because it starts one.
    """
    setpriv = shutil.which("setpriv")
    if os.getpid() == 1 or setpriv is None:
        return ()
    prefix = (setpriv, "--pdeathsig", "KILL", "--")
    try:
        probe = subprocess.run((*prefix, "true"), capture_output=True, check=False, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return prefix if probe.returncode == 0 else ()


UNLIMITED = 1 << 60
"""No machine has so many bytes; cgroup v1 writes about 2^63 where there is no limit."""


class CgroupMemory(Struct, frozen=True):
    """``kills``: how many processes of the cgroup the OOM killer has killed, for whatever reason.

    ``at_limit`` rises when the cgroup has no room below its own ``limit`` (bytes; None: unlimited).
    """

    kills: int
    at_limit: int = 0
    limit: int | None = None


def memory(proc_cgroup: Path, root: Path) -> CgroupMemory | None:
    """As the files of cgroup v1 (memory.oom_control, ...) or v2 (memory.events, ...) say.

    None where the kernel's kills are unknown. ``proc_cgroup`` is /proc/self/cgroup, ``root``
    /sys/fs/cgroup. In a container the path that the first names may not exist below the second: our
    own cgroup is the root there.
    """
    for folder, is_v1 in _places(proc_cgroup, root):
        for place in (folder, *_outer(folder, root)):
            with suppress(OSError, ValueError):
                name = "memory.oom_control" if is_v1 else "memory.events"
                counters = dict(line.split() for line in (place / name).read_text().splitlines())
                if "oom_kill" in counters:
                    kills = int(counters["oom_kill"])
                    at_limit = _number(place / "memory.failcnt") or 0
                    if not is_v1:
                        at_limit = int(counters.get("oom", 0))
                    limit = _number(place / ("memory.limit_in_bytes" if is_v1 else "memory.max"))
                    return CgroupMemory(kills, at_limit, limit)
    return None


def free_memory(proc_cgroup: Path, root: Path, meminfo: Path) -> int | None:
    """Bytes that processes here may still take before memory runs out; None if it is unknown.

    What the machine has to spare, or less, if our cgroup allows less; its file cache can be
    dropped, apart from what is in use. ``meminfo`` is /proc/meminfo.
    """
    rooms = [_machine_room(meminfo)]
    for folder, is_v1 in _places(proc_cgroup, root):
        for place in (folder, *_outer(folder, root)):
            limit = _number(place / ("memory.limit_in_bytes" if is_v1 else "memory.max"))
            used = _number(place / ("memory.usage_in_bytes" if is_v1 else "memory.current"))
            if limit is not None and used is not None:
                rooms.append(limit - used + _droppable(place, is_v1=is_v1))
    return min((room for room in rooms if room is not None), default=None)


def free_processes(proc_cgroup: Path, root: Path) -> int | None:
    """How many more processes and threads our cgroup has room for; None: no limit is known."""
    rooms = []
    for folder, _ in _places(proc_cgroup, root, "pids"):
        for place in (folder, *_outer(folder, root)):
            limit, used = _number(place / "pids.max"), _number(place / "pids.current")
            if limit is not None and used is not None:
                rooms.append(limit - used)
    return min(rooms, default=None)


def _machine_room(meminfo: Path) -> int | None:
    with suppress(OSError, ValueError):
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None


def _droppable(place: Path, *, is_v1: bool) -> int:
    name = "total_inactive_file" if is_v1 else "inactive_file"
    with suppress(OSError, ValueError):
        for line in (place / "memory.stat").read_text().splitlines():
            key, _, value = line.partition(" ")
            if key == name:
                return int(value)
    return 0


def _number(path: Path) -> int | None:
    """None if it cannot be read, is no number ("max"), or is unlimited."""
    with suppress(OSError, ValueError):
        number = int(path.read_text())
        return number if number < UNLIMITED else None
    return None


def _places(proc_cgroup: Path, root: Path, controller: str = "memory") -> list[tuple[Path, bool]]:
    """The directories of this controller that may be ours, and whether they are of v1."""
    try:
        lines = proc_cgroup.read_text().splitlines()
    except OSError:
        return []
    places = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            places.append((root / controller / path.lstrip("/"), True))
        elif not controllers:
            places.append((root / path.lstrip("/"), False))
    return places


def _outer(folder: Path, root: Path) -> tuple[Path, ...]:
    if folder.exists():
        return ()
    top = folder.relative_to(root).parts[:1]
    return (root / top[0], root) if set(top) & CONTROLLERS else (root,)
