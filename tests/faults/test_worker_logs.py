"""The logs that a launcher's workers write themselves, on a disk that hangs while they are read."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from ascend_supervisor.events import Event
from ascend_supervisor.events.output import OutputUnread
from ascend_supervisor.output.console import Console
from ascend_supervisor.output.launcher_logs import WorkerLogs
from ascend_supervisor.output.mirror import Mirror
from ascend_supervisor.output.text_lines import RawLines
from ascend_supervisor.process_spec import ProcessSpec, WorkerLog
from ascend_supervisor.tasks.clock import MonotonicClock
from tests.faults.facilities import Hanging, hanging
from tests.running import DEADLINE_SECONDS

SIZE = 300_000
NEVER = 0.2
"""Seconds for a disk that does not answer at all."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Hanging]:
    with hanging(tmp_path, os.geteuid(), "disk") as (one,):
        yield one


@dataclass
class Watched:
    """The logs of workers of ``msrun``, and what is shown of them in a file."""

    console: Console
    shown: Path
    events: list[Event] = field(default_factory=list)

    def logs(self, *paths: Path) -> WorkerLogs:
        logs = tuple(WorkerLog(path, rank, rank) for rank, path in enumerate(paths))
        launcher = ProcessSpec(("msrun",), Path("/"), Path("/log"), title="msrun", worker_logs=logs)
        return WorkerLogs(launcher, self._mirror, MonotonicClock(), self.events.append)

    def _mirror(self, _: ProcessSpec) -> Mirror:
        return Mirror(self.console, RawLines(), lambda *_: None, self._failed)

    def _failed(self, error: Exception) -> None:
        raise error

    async def text(self) -> bytes:
        assert await self.console.finish()
        return self.shown.read_bytes()


@pytest.fixture
async def watched(tmp_path: Path) -> AsyncIterator[Watched]:
    shown = tmp_path / "shown"
    descriptor = os.open(shown, os.O_WRONLY | os.O_CREAT)
    yield Watched(Console(descriptor), shown)
    os.close(descriptor)


def words(size: int, first: int = 0) -> bytes:
    """Text of which each line is another."""
    lines = b"".join(b"%d: what a worker says\n" % number for number in range(first, first + size))
    return lines[:size]


async def until(holds: Callable[[], object]) -> None:
    with anyio.fail_after(DEADLINE_SECONDS):
        while not holds():
            await anyio.sleep(0.005)


async def hangs_while_it_reads(
    logs: WorkerLogs, watched: Watched, disk: Hanging, act: Callable[[], object]
) -> None:
    """``run``, then freeze the disk and ``act``; end it as a generation ends it, in a read."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(logs.run)
        await until(lambda: watched.shown.stat().st_size)
        await anyio.to_thread.run_sync(disk.freeze)
        act()
        await until(lambda: disk.asked)
        tasks.cancel_scope.cancel()


async def test_a_read_that_hung_when_the_job_ended_loses_nothing(disk, watched):
    """It was abandoned, and went on beside the last one, at the same place of the same file."""
    text = words(SIZE)
    worker = disk.source / "worker_0.log"
    worker.write_bytes(text[:1000])
    logs = watched.logs(disk.target / worker.name)
    await hangs_while_it_reads(logs, watched, disk, lambda: worker.write_bytes(text))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(logs.finish, DEADLINE_SECONDS)
        await anyio.lowlevel.checkpoint()  # the last look begins while the disk still hangs
        disk.thaw()
    assert await watched.text() == text
    assert watched.events == []


async def test_what_a_worker_wrote_while_the_read_hung_is_read_too(disk, watched):
    text = words(SIZE)
    worker = disk.source / "worker_0.log"
    worker.write_bytes(text[:1000])
    logs = watched.logs(disk.target / worker.name)
    await hangs_while_it_reads(logs, watched, disk, lambda: None)
    worker.write_bytes(text)
    disk.thaw()
    await logs.finish(DEADLINE_SECONDS)
    assert await watched.text() == text
    assert watched.events == []


async def test_what_is_not_read_in_time_is_told(disk, watched):
    worker = disk.source / "worker_0.log"
    worker.write_bytes(words(1000))
    paths = [disk.target / "worker_0.log", disk.target / "worker_1.log"]
    logs = watched.logs(*paths)
    await hangs_while_it_reads(logs, watched, disk, lambda: worker.write_bytes(words(SIZE)))
    with anyio.fail_after(DEADLINE_SECONDS):
        await logs.finish(NEVER)
    told = [event for event in watched.events if isinstance(event, OutputUnread)]
    assert [(event.rank, event.path) for event in told] == list(enumerate(map(str, paths)))
    assert f"could not be read to the end within {NEVER:g} s" in told[0].msg
    assert open_files(disk) == 1
    disk.thaw()
    await until(lambda: open_files(disk) == 0)


def open_files(disk: Hanging) -> int:
    """How many files of the disk we have open."""
    links: list[Path] = []
    for link in Path("/proc/self/fd").iterdir():
        try:
            links.append(link.readlink())
        except FileNotFoundError:
            continue
    return sum(disk.target in link.parents for link in links)
