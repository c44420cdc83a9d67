"""Sets of CPUs as the kernel writes them, see cpuset(7), "List format": ``0-3,8``; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

MOST_CPUS = 8192
"""Of a machine: CONFIG_NR_CPUS is at most that on x86-64, and 4096 on aarch64."""
_RUN = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?", re.ASCII)


def read_cpu_list(text: str) -> frozenset[int]:
    """The CPUs of a list; raises ValueError. An empty text holds none."""
    cpus: set[int] = set()
    for word in filter(None, (part.strip() for part in text.split(","))):
        found = _RUN.fullmatch(word)
        if found is None:
            raise ValueError(word)
        first, last = int(found[1]), int(found[2] or found[1])
        if not first <= last < MOST_CPUS:
            raise ValueError(word)
        cpus.update(range(first, last + 1))
    return frozenset(cpus)


def cpu_list(cpus: Iterable[int]) -> str:
    """The list of these CPUs, in the shortest form."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and runs[-1][1] == cpu - 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in runs)
