"""What happens when it is we who fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from ascend_supervisor.errors import DEFECT, UNAVAILABLE, USAGE, Unavailable
from ascend_supervisor.events import Event
from ascend_supervisor.events.supervisor import Defect
from ascend_supervisor.output.log_file import Rotation
from ascend_supervisor.output.rank_logs import RankLogs
from ascend_supervisor.output.rank_output import Outputs
from ascend_supervisor.processes.children import Children
from ascend_supervisor.processes.ownership import Mark, Ownership
from ascend_supervisor.program.run import exited
from ascend_supervisor.scarcity import NoThread
from ascend_supervisor.supervisor import Job
from ascend_supervisor.tasks.clock import MonotonicClock
from ascend_supervisor.workers.runtime import Runtime
from tests.running import DEADLINE_SECONDS


def surroundings(events: list[Event]) -> Runtime:
    clock = MonotonicClock()
    logs = RankLogs(Rotation(1 << 30, 1), "a test", events.append)
    return Runtime(
        children=Children(),
        ownership=Ownership(Mark("OWNER", "nobody's"), frozenset()),
        outputs=Outputs(logs, lambda *_: None, clock, events.append),
        environ={},
        memory=lambda: None,
        clock=clock,
        report=events.append,
    )


async def claim() -> None:
    """Nobody else has this place."""


async def test_a_defect_of_ours_ends_with_70_is_told_and_leaves_no_rank():
    events: list[Event] = []
    runtime = surroundings(events)
    rank = runtime.children.spawn(
        ("sleep", "600"), environ=dict(os.environ), cwd="/", output=subprocess.DEVNULL
    )

    async def broken() -> Job:
        raise LookupError("nobody\nexpected this")

    with anyio.fail_after(20):
        end = await exited(claim, broken, runtime)
    assert end.event.exit_code == DEFECT
    assert end.refusal is not None
    assert "LookupError" in end.refusal
    assert rank.returncode is not None
    (event,) = events
    assert isinstance(event, Defect)
    assert str(Path(__file__).name) in event.traceback


async def test_a_refusal_is_an_end_with_its_own_code_and_one_line():
    async def refusing() -> Job:
        raise Unavailable("no\nroom")

    end = await exited(claim, refusing, surroundings([]))
    assert (end.event.exit_code, end.event.root_cause) == (69, r"no\nroom")


async def test_without_room_for_a_thread_the_job_is_refused():
    async def crowded() -> Job:
        raise NoThread

    end = await exited(claim, crowded, surroundings([]))
    assert end.event.exit_code == UNAVAILABLE
    assert end.event.reason.startswith("the machine has no room for another thread: raise ")


NOT_PERMITTED = """
import os, sys
from ascend_supervisor.program.run import run

def listen(_):
    raise PermissionError(1, "Operation not permitted")

sys.exit(run(["--standalone", "1", "--", "true"], os.environ, listen, os._exit))
"""


def test_what_the_kernel_does_not_permit_is_one_sentence(tmp_path):
    """A filter of system calls, for instance."""
    found = subprocess.run(
        (sys.executable, "-c", NOT_PERMITTED),
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "MA_MOUNT_PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    said = "ascend_supervisor: cannot start: Operation not permitted\n"
    assert (found.returncode, found.stderr) == (UNAVAILABLE, said)


PROGRAM = ("-m", "ascend_supervisor")
JOB = ("--standalone", "1", "--", "true")


@pytest.mark.parametrize(
    ("word", "code", "sentence"),
    [
        ("--nope", USAGE, "--nope is not known; --help lists the options"),
        ("--check", UNAVAILABLE, "cannot start: Too many open files; raise ulimit -n"),
        ("--restarts=0", UNAVAILABLE, "cannot start: Too many open files; raise ulimit -n"),
        ("--retryable-exit-code=137", 137, "cannot start: Too many open files; raise ulimit -n"),
    ],
)
def test_without_room_for_an_event_loop_there_is_one_sentence(tmp_path, word, code, sentence):
    found = subprocess.run(
        ("prlimit", "--nofile=5", "--", sys.executable, *PROGRAM, word, *JOB),
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert (found.returncode, found.stderr) == (code, f"ascend_supervisor: {sentence}\n")
