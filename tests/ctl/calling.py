"""Calls of ascend-supervisorctl, and the state files that it is shown."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ascend_supervisor.ctl.main import run
from ascend_supervisor.ctl.out import Out
from ascend_supervisor.processes.proc import start_time
from tests.running import DEADLINE_SECONDS

PROGRAM = (sys.executable, "-m", "ascend_supervisor.ctl")
NEAR = re.compile(r"ascend-supervisorctl: (found instead: |and [0-9]+ more$|usage: )")
ENVIRON = {"PATH": os.environ["PATH"], "TERM": "xterm"}


class Answer(NamedTuple):
    """What came of a call."""

    returncode: int
    stdout: str
    stderr: str


def ctl(*arguments: str, environ: Mapping[str, str] | None = None) -> Answer:
    """One call, in this process."""
    put = bytearray()
    told: list[str] = []
    code = run(arguments, environ or {}, Out(put.extend, told.append))
    assert not any("a defect of this program" in sentence for sentence in told)
    return Answer(code, put.decode(), "".join(f"{sentence}\n" for sentence in told))


def process(
    *arguments: str, before: tuple[str, ...] = (), **options: Any
) -> subprocess.CompletedProcess[str]:
    """One call, by a process of its own; ``before`` are words before the interpreter."""
    found = subprocess.run(
        [*before, *PROGRAM, *arguments],
        env=ENVIRON,
        stdout=options.pop("stdout", subprocess.PIPE),
        stderr=subprocess.PIPE,
        timeout=DEADLINE_SECONDS,
        check=False,
        text=True,
        **options,
    )
    assert "Traceback" not in found.stderr
    return found


def refused(code: int, *arguments: str, environ: Mapping[str, str] | None = None) -> str:
    """The one sentence with which the call is refused with ``code``.

    Supervisors of other tests may be found near; each of them has a line of its own.
    """
    found = ctl(*arguments, environ=environ)
    assert (found.returncode, found.stdout) == (code, "")
    sentence, *others = found.stderr.splitlines(keepends=True)
    assert all(NEAR.match(line) for line in others)
    assert sentence.startswith("ascend-supervisorctl: ")
    return sentence


def own_state(path: Path, **changes: Any) -> Path:
    """A state file of which this test is the supervisor, put in place at once."""
    document: dict[str, Any] = {
        "job_id": "job",
        "pod": "pod-0",
        "pid": os.getpid(),
        "start_time": start_time(os.getpid()),
        "version": "0.1.0",
        "phase": "running",
        "why": "",
        "generation": 0,
        "restarts_left": 1,
        "world_size": 1,
        "ranks": [],
        "exit_code": None,
        "root_cause": None,
    }
    written = path.with_suffix(".new")
    written.write_text(json.dumps(document | changes))
    written.replace(path)
    return path


def rank_of(log: Path, rank: int | None = 0, **changes: Any) -> dict[str, Any]:
    found = {"rank": rank, "local_rank": rank, "pid": os.getpid(), "log": str(log)}
    return found | {"status": None, "signal": None} | changes
