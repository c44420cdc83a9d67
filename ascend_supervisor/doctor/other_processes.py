"""Processes that are in the way: what dead supervisors have left, and what holds an NPU.

A start ends what its own job has left, and waits until nobody holds an NPU.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from ascend_supervisor.doctor.check import ThisServer, fit, warning
from ascend_supervisor.doctor.npus import npus_of
from ascend_supervisor.events.server import Result
from ascend_supervisor.phrases import counted, listed
from ascend_supervisor.processes import proc
from ascend_supervisor.processes.descriptors import holds_file
from ascend_supervisor.processes.pid import Pid
from ascend_supervisor.settings.user_variables import OWNER

_MARK = re.compile(rb"([0-9]{1,18})\.([0-9]{1,18})@(.+)", re.DOTALL)


def left_processes(server: ThisServer) -> Iterator[Result]:
    """What supervisors have left that do not live any more, but not one of this job.

    Marks of processes name their supervisor and its state file; raises OSError.
    """
    own = os.fsencode(server.state_file)
    pids = [pid for pid in proc.pids() if pid != os.getpid()]
    marked = proc.started_with(OWNER.encode(), pids)
    left = [pid for pid in marked if _is_left(pid, own)]
    if left:
        yield warning(
            "left processes",
            listed([proc.description(pid) for pid in left], 4),
            "none of a supervisor that does not live any more",
            "end them: kill -9 " + " ".join(map(str, left[:8])),
        )


def _is_left(pid: int, own: bytes) -> bool:
    mark = _MARK.fullmatch(proc.environ(pid).get(OWNER.encode(), b""))
    if mark is None or mark[3] == own or not proc.in_our_pid_namespace(pid):
        return False
    return not Pid(int(mark[1]), int(mark[2])).lives


HELD = "held devices"


def held_devices(server: ThisServer) -> Iterator[Result]:
    """Ranks of a supervisor may hold an NPU; of others, each is described."""
    paths = frozenset(str(server.roots.dev / f"davinci{number}") for number in npus_of(server))
    if not paths:
        return
    holders = [pid for pid in proc.pids() if holds_file(pid, paths)]
    ours = proc.started_with(OWNER.encode(), holders)
    others = [proc.description(pid) for pid in holders if pid not in ours]
    if others:
        yield warning(
            HELD,
            f"held by {listed(others, 4)}",
            "no process that is none of a supervisor",
            "end these processes; in state D only a reset of the NPU does",
        )
    elif ours:
        number = counted(len(ours), "process", "processes")
        yield fit(HELD, f"held by {number} of a supervisor")
    else:
        yield fit(HELD, "held by nobody")
