"""What happens when it is we who fail."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import anyio

from ascend_supervisor.errors import DEFECT, Unavailable
from ascend_supervisor.events import Defect, Event
from ascend_supervisor.output.log_file import Rotation
from ascend_supervisor.output.rank_logs import RankLogs
from ascend_supervisor.processes.children import Children
from ascend_supervisor.processes.ownership import Ownership
from ascend_supervisor.run import _exited
from ascend_supervisor.supervisor import Job
from ascend_supervisor.tasks.clock import MonotonicClock
from ascend_supervisor.workers.runtime import Runtime


def surroundings(events: list[Event]) -> Runtime:
    return Runtime(
        children=Children(),
        ownership=Ownership("nobody's", frozenset()),
        logs=RankLogs(Rotation(1 << 30, 1), "a test", events.append),
        mirror=lambda *_: None,
        environ={},
        oom_kills=lambda: None,
        clock=MonotonicClock(),
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

    def broken() -> Job:
        raise LookupError("nobody\nexpected this")

    with anyio.fail_after(20):
        exited = await _exited(claim, broken, runtime)
    assert exited.exit_code == DEFECT
    assert exited.refusal is not None
    assert "LookupError" in exited.refusal
    assert rank.status is not None
    (event,) = events
    assert isinstance(event, Defect)
    assert str(Path(__file__).name) in event.traceback


async def test_a_refusal_is_an_end_with_its_own_code_and_one_line():
    def refusing() -> Job:
        raise Unavailable("no\nroom")

    exited = await _exited(claim, refusing, surroundings([]))
    assert (exited.exit_code, exited.root_cause) == (69, r"no\nroom")
