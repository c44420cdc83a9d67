"""The CPUs near each NPU, as the last column of ``npu-smi info -t topo`` has them; pure."""

from __future__ import annotations

import re
from contextlib import suppress

from ascend_supervisor.cpus.cpu_list import read_cpu_list
from ascend_supervisor.cpus.topology import CpuSet

COMMAND = ("npu-smi", "info", "-t", "topo")
_COLUMN = "CPU Affinity"
"""Missing for Atlas A5, whose table is about links between NPUs only."""
_ROW = re.compile(r"NPU([0-9]{1,3})\s.*\s(\S+)", re.ASCII)


def read_affinity_table(text: str) -> dict[int, CpuSet]:
    """By the number of the NPU; empty if the table does not tell it."""
    lines = [line.strip() for line in text.splitlines()]
    begins = next((at for at, line in enumerate(lines) if line.endswith(_COLUMN)), len(lines))
    near: dict[int, CpuSet] = {}
    for line in lines[begins + 1 :]:
        if found := _ROW.fullmatch(line):
            with suppress(ValueError):  # NA
                near[int(found[1])] = read_cpu_list(found[2])
    return near
