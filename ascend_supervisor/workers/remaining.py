"""Descriptions of the processes of a group that still run; they are read from /proc in a thread."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from ascend_supervisor.processes.children import Children
from ascend_supervisor.processes.descriptors import LOOK_SECONDS, only_waits
from ascend_supervisor.processes.proc import description, stat
from ascend_supervisor.tasks.threads import aside
from ascend_supervisor.workers.process import Process


async def remaining(
    processes: Sequence[Process], ranks: Mapping[int, int], children: Children
) -> dict[int, str]:
    """What still runs, by pid, each after the rank that it belongs to; zombies too.

    ``ranks`` are those of launchers' workers, by pid.
    """
    owners = {one.pid: one.spec.name for one in processes if one.status is None}
    with suppress(OSError), children.spare_descriptor():
        for one in processes:
            owners |= {pid.number: one.spec.name for pid in one.left_behind}
    owners |= {pid: f"rank {ranks[pid]}" for pid in owners.keys() & ranks.keys()}
    return await aside(
        lambda: {pid: f"{owners[pid]}: {description(pid)}" for pid in owners if stat(pid)}
    )


async def left_by_command(processes: Sequence[Process], children: Children) -> tuple[str, ...]:
    """What lives although the command that leads ranks has ended, and reads no rest of a pipe."""
    with suppress(OSError), children.spare_descriptor():
        ended = [one for one in processes if one.spec.leads_ranks and one.status is not None]
        behind = [pid.number for process in ended for pid in process.left_behind]
        until = time.monotonic() + LOOK_SECONDS
        left = [number for number in behind if not only_waits(number, until)]
        return await aside(lambda: tuple(map(description, left)))
    return ()
