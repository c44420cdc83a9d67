"""What the kernel gives to a process: CPUs and memory, and how much it gives way to others.

A child has what the thread that starts it has, so nothing runs between fork and exec, and no
wrapper stands before the command.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ascend_supervisor.processes import proc

SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}
"""The numbers of the system call."""
DEFAULT, PREFERRED = 0, 1
"""MPOL_*, see set_mempolicy(2)."""
MASK_BITS = 1024


@contextmanager
def given_to_children(cpus: frozenset[int] | None, node: int | None = None) -> Iterator[None]:
    """What this thread starts meanwhile runs on ``cpus``, and takes memory of ``node`` first.

    None: as this thread. Where the kernel refuses it, children run as this thread: ``cpus_of`` says
    what they got.
    """
    before = None
    if cpus is not None:
        with suppress(OSError):
            before = os.sched_getaffinity(0)
            os.sched_setaffinity(0, cpus)
    if node is not None:
        _prefer(node)
    try:
        yield
    finally:
        if before is not None:
            with suppress(OSError):
                os.sched_setaffinity(0, before)
        if node is not None:
            _prefer(None)


def bind(pid: int, cpus: frozenset[int]) -> None:
    """All threads of a process that runs already keep to ``cpus``, unless the kernel refuses it."""
    with suppress(OSError):
        for thread in map(int, proc.listed(f"/proc/{pid}/task")):
            with suppress(OSError):  # it has ended, or the cpuset has changed
                os.sched_setaffinity(thread, cpus)


def cpus_of(pid: int) -> frozenset[int] | None:
    """Where a process may run; None if it has gone."""
    with suppress(OSError):
        return frozenset(os.sched_getaffinity(pid))
    return None


def _prefer(node: int | None) -> None:
    """Docker's seccomp profile refuses this without CAP_SYS_NICE; then memory is local as ever."""
    call = SET_MEMPOLICY.get(platform.machine())
    if call is None:
        return
    mask = ctypes.create_string_buffer(MASK_BITS // 8)
    if node is not None:
        mask[node // 8] = bytes((1 << node % 8,))
    mode, bits = (DEFAULT, 0) if node is None else (PREFERRED, MASK_BITS)
    ctypes.CDLL(None).syscall(call, mode, mask if node is not None else None, bits)


MOST_NICE = 19
CAP_SYS_NICE = 23
"""linux/capability.h."""
IOPRIO_SET = {"x86_64": 251, "aarch64": 30}
"""The numbers of the system call."""
WHO_PROCESS, CLASS_SHIFT, CLASS_IDLE, CLASS_NONE = 1, 13, 3, 0
"""linux/ioprio.h."""
FIRST_VICTIM = 1000
"""Of oom_score_adj(5): the kernel kills such a process before all others."""


def give_way(pid: int) -> None:
    """From now on it runs when nobody else wants to, as far as ``take_part`` can undo that."""
    with suppress(OSError):
        Path(f"/proc/{pid}/oom_score_adj").write_text(f"{FIRST_VICTIM}")
    if _may_undo():
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, pid, MOST_NICE)
            _set_session(pid, MOST_NICE)
    _set_io(pid, CLASS_IDLE)


def take_part(pid: int) -> bool:
    """All its threads run as this process does; False if that could not be done.

    When memory runs out it is still the first that is killed.
    """
    try:
        for thread in map(int, proc.listed(f"/proc/{pid}/task")):
            nice = os.getpriority(os.PRIO_PROCESS, 0)
            if os.getpriority(os.PRIO_PROCESS, thread) != nice:
                os.setpriority(os.PRIO_PROCESS, thread, nice)
            _set_io(thread, CLASS_NONE)
        _set_session(pid, _session("self")[1])
    except OSError:
        return False
    return True


def be_no_victim(pid: int) -> bool:
    """When memory runs out it is killed no sooner than this process; False if that fails.

    A value may be lowered as far as a process with CAP_SYS_RESOURCE has set it, which was before
    ours (proc_pid_oom_score_adj(5)).
    """
    with suppress(OSError):
        own, given = Path("/proc/self/oom_score_adj"), Path(f"/proc/{pid}/oom_score_adj")
        if given.read_text() != own.read_text():
            given.write_text(own.read_text())
        return True
    return False


def _set_session(pid: int, nice: int) -> None:
    """Outside cgroups the kernel may share CPU time between sessions first (sched(7), autogroup).

    Then the nice value of a process says nothing to other sessions. Raises OSError.
    """
    group, before = _session(pid)
    if before != nice and group != _session("self")[0]:
        Path(f"/proc/{pid}/autogroup").write_text(f"{nice}")


def _session(who: int | str) -> tuple[str, int]:
    """The name and the nice value of its session; without a name if the kernel has no such thing.

    Raises OSError.
    """
    try:
        said = Path(f"/proc/{who}/autogroup").read_text()
    except FileNotFoundError:
        return "", 0
    name, _, nice = said.partition(" nice ")
    return name, int(nice or 0)


def _may_undo() -> bool:
    """Whether a nice value may be lowered again (see setpriority(2))."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NICE)
    if 20 - soft <= os.getpriority(os.PRIO_PROCESS, 0):
        return True
    for line in proc.read("/proc/self/status").splitlines():
        if line.startswith(b"CapEff:"):
            return bool(int(line.split()[1], 16) >> CAP_SYS_NICE & 1)
    return False


def _set_io(thread: int, io_class: int) -> None:
    number = IOPRIO_SET.get(platform.machine())
    if number is not None:
        ctypes.CDLL(None).syscall(number, WHO_PROCESS, thread, io_class << CLASS_SHIFT)
