"""Linux features for the processes below us: we adopt orphans, and ranks die with us."""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ascend_supervisor.processes.guardian_link import Guardian
from ascend_supervisor.processes.ownership import Mark

PR_SET_CHILD_SUBREAPER = 36
"""linux/prctl.h, since Linux 3.4."""
RLIMIT_LOCKS = 10
"""asm-generic/resource.h; Python has no name for it."""


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
    try:
        with inherited(None):
            subprocess.run(
                (setsid, *words),
                stdin=read_end,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={},
                cwd="/",
                check=True,
                timeout=5,
            )
    except (OSError, subprocess.SubprocessError):
        os.close(write_end)
        return Guardian()
    finally:
        os.close(read_end)
    return Guardian(write_end, mark)


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
