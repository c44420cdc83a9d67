"""What makes a standby useless: it holds what only one process may have. This only reads /proc."""

from __future__ import annotations

import re
from pathlib import Path

from ascend_supervisor.processes import proc
from ascend_supervisor.processes.descriptors import open_files
from ascend_supervisor.processes.tcp_ports import listening_ports

CANN = re.compile(rb"/lib(?:ascend\w*|a?log|slog|runtime|hccl\w*)\.so")
HARMLESS_DEVICES = frozenset(
    f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty")
)
SHARED_MEMORY = "/dev/shm/"  # noqa: S108  (nothing is written there)


def obstacle(pid: int, root: Path = proc.PROC) -> str | None:
    """Half a sentence: why the process may not become a rank; None if it may.

    Raises OSError at EMFILE and the like.
    """
    files = open_files(pid, root)
    if devices := sorted(filter(_is_device, files)):
        return f"its imports have opened {devices[0]}"
    if started := proc.children(pid, root):
        return f"its imports have started {proc.description(started[0], root)}"
    if ports := listening_ports(frozenset(files), root):
        return f"its imports listen at port {ports[0]}"
    return None


def _is_device(path: str) -> bool:
    is_other = path in HARMLESS_DEVICES or path.startswith((SHARED_MEMORY, "/dev/pts/"))
    return path.startswith("/dev/") and not is_other


def has_cann(pid: int, root: Path = proc.PROC) -> bool:
    """Whether it has loaded a library of CANN, and may have read where that logs."""
    return CANN.search(proc.read(f"{root}/{pid}/maps")) is not None
