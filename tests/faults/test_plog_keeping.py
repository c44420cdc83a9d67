"""The disk with CANN's logs hangs while those of earlier generations are removed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from ascend_supervisor.cluster.made_table import standalone_table
from ascend_supervisor.events import Event
from ascend_supervisor.events.output import PlogsRemoved
from ascend_supervisor.job_files import Place
from ascend_supervisor.life import Life, Living, Plan, Start
from ascend_supervisor.outcome import Completed, Ended, Outcome
from ascend_supervisor.output.last_lines import Activity
from ascend_supervisor.process_spec import ProcessSpec
from ascend_supervisor.program.plog_keeping import PlogKeeping
from ascend_supervisor.workers.generation import Company
from tests.faults.facilities import Hanging, hanging
from tests.running import DEADLINE_SECONDS, wait_until


async def told(outcome: Outcome, uptime: float) -> None:
    """Nobody is."""


async def seen(life: Life) -> str:
    """Nothing is."""
    return ""


COMPANY = Company((), told, seen)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Hanging]:
    with hanging(tmp_path, os.geteuid(), "disk") as (one,):
        yield one


def ended_process() -> int:
    with subprocess.Popen(["true"]) as process:
        return process.pid


class Generations:
    """Each has a rank of its own, which logs, and lasts until the test has seen enough."""

    def __init__(self, disk: Hanging) -> None:
        self.events: list[Event] = []
        self.logs: list[Path] = []
        top = disk.target
        self._rank = ProcessSpec(
            ("true",),
            top,
            top / "rank.txt",
            {"ASCEND_PROCESS_LOG_PATH": f"{top}/named/ascend/process_log/rank_0"},
            rank=0,
        )
        self._written = disk.source / "named/ascend/process_log/rank_0/debug/plog"
        self._written.mkdir(parents=True)
        place = Place("named", "pod", top, top, top / "table", top / "state", top)
        self._run = PlogKeeping(0, place, {}, self.events.append).around(self._ranks)
        self._until = 0

    async def run(self, until: int = 0) -> None:
        """A generation, which lasts until so many events have come."""
        self._until = until
        found = standalone_table(1)
        plan = Plan(Start(0, found, 0, found.table.entries[0], 0), (self._rank,))
        await self._run(Life(plan), COMPANY)

    async def _ranks(self, life: Life, _: Company) -> Ended:
        pid = ended_process()
        self.logs.append(self._written / f"plog-{pid}_20251124111652406.log")
        self.logs[-1].write_text("words")
        life.processes.append(Living(self._rank, pid, Activity(0.0)))
        with anyio.fail_after(DEADLINE_SECONDS):
            while len(self.events) < self._until:
                await anyio.sleep(0.01)
        return Ended(Completed(), 1.0)


async def test_a_hanging_disk_keeps_no_generation_from_starting(disk):
    generations = Generations(disk)
    await generations.run()
    disk.freeze()
    with anyio.fail_after(DEADLINE_SECONDS):  # for ever, if anybody waited for the disk
        await generations.run()
        wait_until(lambda: disk.asked)
        await generations.run()
        await generations.run()
    assert disk.asked == 1  # there is no second removal beside the first
    assert all(log.exists() for log in generations.logs)
    disk.thaw()
    await generations.run(until=1)
    assert generations.events[0] == PlogsRemoved(1, len("words"), 0)
    await generations.run(until=2)
    assert [log.exists() for log in generations.logs[:4]] == [False] * 4
