"""What we ask of Linux for the processes below us: orphans come to us, and ranks die with us."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess

PR_SET_CHILD_SUBREAPER = 36
"""linux/prctl.h, since Linux 3.4."""


def become_subreaper() -> None:
    """From now on descendants whose parent dies become our children. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


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
