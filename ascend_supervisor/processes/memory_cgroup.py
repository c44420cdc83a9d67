"""How many processes of our memory cgroup the kernel has killed because memory ran out."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def oom_kills(proc_cgroup: Path, root: Path) -> int | None:
    """The counter of cgroup v1 (memory.oom_control) or v2 (memory.events); None where unknown.

    ``proc_cgroup`` is /proc/self/cgroup, ``root`` /sys/fs/cgroup. In a container the path that the
    first names may not exist below the second: our own cgroup is the root there.
    """
    for folder, name in _places(proc_cgroup, root):
        for place in (folder, *_outer(folder, root)):
            with suppress(OSError, ValueError):
                counters = dict(line.split() for line in (place / name).read_text().splitlines())
                if "oom_kill" in counters:
                    return int(counters["oom_kill"])
    return None


def _places(proc_cgroup: Path, root: Path) -> list[tuple[Path, str]]:
    try:
        lines = proc_cgroup.read_text().splitlines()
    except OSError:
        return []
    places = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            places.append((root / "memory" / path.lstrip("/"), "memory.oom_control"))
        elif not controllers:
            places.append((root / path.lstrip("/"), "memory.events"))
    return places


def _outer(folder: Path, root: Path) -> tuple[Path, ...]:
    if folder.exists():
        return ()
    top = folder.relative_to(root).parts[:1]
    return (root / "memory", root) if top == ("memory",) else (root,)
