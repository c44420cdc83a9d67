"""What our memory cgroup says of memory that ran out: its limit, and whom the kernel has killed."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from msgspec import Struct

UNLIMITED = 1 << 60
"""No machine has so many bytes; cgroup v1 writes about 2^63 where there is no limit."""


class Memory(Struct, frozen=True):
    """``kills``: how many processes of the cgroup the OOM killer has killed, for whatever reason.

    ``at_limit`` rises when the cgroup has no room below its own ``limit`` (bytes; None: unlimited).
    """

    kills: int
    at_limit: int = 0
    limit: int | None = None


def memory(proc_cgroup: Path, root: Path) -> Memory | None:
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
                    return Memory(kills, at_limit, limit)
    return None


def _number(path: Path) -> int | None:
    """None if it cannot be read, is no number ("max"), or is unlimited."""
    with suppress(OSError, ValueError):
        number = int(path.read_text())
        return number if number < UNLIMITED else None
    return None


def _places(proc_cgroup: Path, root: Path) -> list[tuple[Path, bool]]:
    """The directories that may be ours, and whether they are of v1."""
    try:
        lines = proc_cgroup.read_text().splitlines()
    except OSError:
        return []
    places = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            places.append((root / "memory" / path.lstrip("/"), True))
        elif not controllers:
            places.append((root / path.lstrip("/"), False))
    return places


def _outer(folder: Path, root: Path) -> tuple[Path, ...]:
    if folder.exists():
        return ()
    top = folder.relative_to(root).parts[:1]
    return (root / "memory", root) if top == ("memory",) else (root,)
