"""Processes that supervisors have left which do not live any more; those of this job are ended."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from ascend_supervisor.doctor.check import ThisServer, warning
from ascend_supervisor.events.server import Result
from ascend_supervisor.events.words import listed
from ascend_supervisor.processes import proc
from ascend_supervisor.processes.pid import Pid
from ascend_supervisor.settings.user_variables import OWNER

_MARK = re.compile(rb"([0-9]{1,18})\.([0-9]{1,18})@(.+)", re.DOTALL)


def left_processes(server: ThisServer) -> Iterator[Result]:
    """Their marks name their supervisor and its state file; raises OSError."""
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
