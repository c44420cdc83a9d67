"""What of this machine a bad day needs; a test without it is skipped, by name."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

CGROUPS = Path("/sys/fs/cgroup")


def program(name: str, package: str) -> str:
    """Where a program is that the Debian ``package`` brings."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is missing (Debian's package {package})")
    return found


@contextmanager
def cgroup(controller: str, **limits: str) -> Iterator[Path]:
    """A cgroup of our own below the root one, of v1 or v2, with its ``limits`` ("max" -> "20").

    A process joins it when its pid is written to ``cgroup.procs``.
    """
    if os.geteuid():
        pytest.skip(f"a {controller} cgroup of our own needs root")
    version_1 = CGROUPS / controller
    root = version_1 if version_1.is_dir() else CGROUPS
    if root == CGROUPS and controller not in _controllers():
        pytest.skip(f"this machine has no cgroup controller {controller} that can be used")
    made = root / f"bad-day-{os.getpid()}"
    made.mkdir()
    try:
        for name, value in limits.items():
            (made / f"{controller}.{name}").write_text(value)
        yield made
    finally:
        made.rmdir()


def _controllers() -> list[str]:
    try:
        return (CGROUPS / "cgroup.subtree_control").read_text().split()
    except OSError:
        return []
