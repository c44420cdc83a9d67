"""Other supervisors of this machine, for somebody who has named none or the wrong one."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from ascend_supervisor.ctl.state import PATTERN, StateUnknown, read_state_file
from ascend_supervisor.job_files import USUAL_LOG_DIR, mounted_log_dir
from ascend_supervisor.processes import proc
from ascend_supervisor.processes.pid import Pid
from ascend_supervisor.settings.user_variables import OWNER
from ascend_supervisor.untrusted_text import plain

MOST = 5
"""How many are named."""
_MARK = re.compile(r"([0-9]{1,18})\.([0-9]{1,18})@(.+)", re.DOTALL)


def hints(missing: Path, environ: Mapping[str, str], most: int = MOST) -> list[str]:
    """What is near the ``missing`` state file, a line for each; empty if nothing is.

    At most so many are named; those whose ranks run come first.
    """
    found = dict.fromkeys([*_of_processes(), *_in_directories(_directories(missing, environ))])
    found.pop(missing, None)
    listed = [f"found instead: {_described(path)}" for path in list(found)[:most]]
    if len(found) > most:
        listed.append(f"and {len(found) - most} more")
    return listed


def _directories(missing: Path, environ: Mapping[str, str]) -> list[Path]:
    named = [missing.parent, mounted_log_dir(environ), USUAL_LOG_DIR]
    return list(dict.fromkeys(Path(one) for one in named if one))


def _in_directories(directories: Iterable[Path]) -> Iterator[Path]:
    for directory in directories:
        with suppress(OSError):
            yield from sorted(directory.glob(PATTERN))


def _of_processes() -> Iterator[Path]:
    """The state files of supervisors that live, by the marks of their ranks."""
    with suppress(OSError):
        for pid in proc.pids():
            place = _place_of_supervisor(_mark(pid))
            if place is not None:
                yield place


def _mark(pid: int) -> str:
    with suppress(OSError, ValueError):
        stat = proc.stat(pid)
        # The environment of a process that is stuck in a driver may not be readable in time.
        if stat is not None and stat.state not in {"D", "Z", "X"}:
            return os.fsdecode(proc.environ(pid).get(OWNER.encode(), b""))
    return ""


def _place_of_supervisor(mark: str) -> Path | None:
    """The state file in ``PID.START@STATE_FILE`` if that process lives."""
    found = _MARK.fullmatch(mark)
    if found and Pid(int(found[1]), int(found[2])).lives:
        return Path(found[3])
    return None


def _described(path: Path) -> str:
    name = plain(str(path))
    try:
        state = read_state_file(path)
    except StateUnknown:
        return f"{name} (it cannot be read)"
    if state.supervisor_lives:
        return f"{name} (of process {state.status.pid}, which runs)"
    return f"{name} (of a supervisor that has ended)"
