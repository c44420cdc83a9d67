"""What is mounted where, as /proc/self/mountinfo says it, and what that means for a directory."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path, PurePath

from msgspec import Struct

from ascend_supervisor.files.regular_file import read_regular_file

MOST_BYTES = 16 * 1024 * 1024
MACHINES_NAMESPACE = 0xEFFFFFFC
"""The inode of the PID namespace that the machine starts with (PROC_PID_INIT_INO of Linux)."""
_ESCAPED = re.compile(r"\\([0-7]{3})")


class Mount(Struct, frozen=True):
    """A file system of this ``kind``, such as ext4, at this ``point``."""

    point: PurePath
    kind: str


def mounts() -> tuple[Mount, ...]:
    """Those that this process sees, the last one of a point on top. Raises OSError."""
    text = os.fsdecode(read_regular_file("/proc/self/mountinfo", MOST_BYTES))
    return tuple(map(_mount, text.splitlines()))


def _mount(line: str) -> Mount:
    """proc_pid_mountinfo(5): the fifth field, and the first one after the separator."""
    before, _, after = line.partition(" - ")
    point = _ESCAPED.sub(lambda found: chr(int(found[1], 8)), before.split(" ")[4])
    return Mount(PurePath(point), after.split(" ")[0])


def is_mounted_within(place: PurePath, mounted: Sequence[Mount]) -> bool:
    """Whether anything is mounted at ``place``, which has no links, or below."""
    return any(one.point.is_relative_to(place) for one in mounted)


def is_own_file_system(place: PurePath, mounted: Sequence[Mount]) -> bool:
    """Whether ``place`` is on the root of a container with PIDs of its own: only it writes there.

    That is an overlay which no other container gets. Raises OSError.
    """
    if is_mounted_within(place, mounted):
        return False
    holding = max(
        (one for one in reversed(mounted) if place.is_relative_to(one.point)),
        key=lambda one: len(one.point.parts),
        default=None,
    )
    if holding is None or holding.point != PurePath("/") or holding.kind != "overlay":
        return False
    return Path("/proc/self/ns/pid").stat().st_ino != MACHINES_NAMESPACE
