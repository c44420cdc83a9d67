"""What we ask of Linux for the processes below us: orphans come to us, and ranks die with us."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

from ascend_supervisor.processes.guardian import Guardian

PR_SET_CHILD_SUBREAPER = 36
"""linux/prctl.h, since Linux 3.4."""


def become_subreaper() -> None:
    """From now on descendants whose parent dies become our children. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def start_guardian(mark: str) -> Guardian:
    """Have all that has ``mark`` (``NAME=value``) in its environment killed when we die, however.

    And what else it is told of. As PID 1 none is needed, and it takes ``setsid``. It is no
    descendant of ours, so to be called before become_subreaper, and before anybody else waits for
    children.
    """
    setsid = shutil.which("setsid")
    if os.getpid() == 1 or setsid is None:
        return Guardian()
    try:
        read_end, write_end = os.pipe()
    except OSError:
        return Guardian()
    program = (
        sys.executable,
        "-I",
        "-S",
        str(Path(__file__).parents[1] / "programs" / "guardian.py"),
        mark,
    )
    try:
        subprocess.run(
            (setsid, "--fork", *program),
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
    return Guardian(write_end)


def parent_death_prefix() -> tuple[str, ...]:
    """The words before a command that make the kernel kill it when we die; none if impossible.

    PID 1 needs none: the kernel kills the whole PID namespace with it. To be called before anybody
    else waits for children, because it starts one.
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
