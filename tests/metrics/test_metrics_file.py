"""When the file is written: at events, though not too often, and at the end."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

import anyio

from ascend_supervisor.events import Event
from ascend_supervisor.events.leftovers import OrphansKilled
from ascend_supervisor.events.supervisor import SupervisorExited
from ascend_supervisor.files.writer_thread import LatestFile
from ascend_supervisor.metrics.figures import Snapshot
from ascend_supervisor.metrics.metrics_file import LEAST_SECONDS, MetricsFile
from ascend_supervisor.metrics.registry import Registry
from ascend_supervisor.tasks.clock import MonotonicClock
from tests.metrics.registries import operations, registry_of
from tests.running import DEADLINE_SECONDS

KILLED = OrphansKilled(1, (7,), earlier_start=False)


class Written:
    """A file whose contents are remembered, with the time of each."""

    def __init__(self) -> None:
        self.contents: list[tuple[float, Snapshot]] = []
        self.file: LatestFile[Snapshot] = LatestFile(self._write, self._failed, "a test")

    @property
    def killed(self) -> list[int]:
        return [content.tally.killed for _, content in self.contents]

    def _write(self, content: Snapshot) -> None:
        self.contents.append((time.monotonic(), content))

    def _failed(self, error: OSError) -> None:
        raise AssertionError(error)


def registry(written: Written) -> Registry:
    return registry_of(MetricsFile(lambda: written.file, MonotonicClock()))


@asynccontextmanager
async def kept(*events: Event) -> AsyncIterator[tuple[Registry, Written]]:
    """After these events, which came before the file might be written."""
    written = Written()
    metrics = registry(written)
    for event in events:
        metrics.report(event)
    with anyio.fail_after(DEADLINE_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(metrics.keep)
            metrics.begin(operations(), metrics.report)
            yield metrics, written
            tasks.cancel_scope.cancel()


async def until_written(written: Written, killed: int) -> None:
    while written.killed[-1:] != [killed]:
        await anyio.sleep(0.01)


async def test_events_before_the_file_may_be_written_count():
    async with kept(KILLED) as (_, written):
        await until_written(written, 1)


async def test_it_is_written_at_an_event_but_at_most_once_a_second():
    async with kept() as (metrics, written):
        await until_written(written, 0)
        for _ in range(30):
            metrics.report(KILLED)
            await anyio.sleep(0.05)
        await until_written(written, 30)
        moments = [moment for moment, _ in written.contents]
        pauses = [after - before for before, after in pairwise(moments)]
        assert len(pauses) >= 2
        assert min(pauses) >= 0.9 * LEAST_SECONDS


async def test_the_end_is_written_at_once():
    async with kept() as (metrics, written):
        await until_written(written, 0)
        metrics.report(KILLED)
        metrics.report(SupervisorExited(0, "", 1, None))
        await written.file.finish()
        assert written.killed[-1] == 1
        first, last = written.contents[0][0], written.contents[-1][0]
        assert last - first < LEAST_SECONDS


async def test_a_start_that_was_refused_writes_nothing():
    written = Written()
    registry(written).report(SupervisorExited(69, "", 0, None))
    await written.file.finish()
    assert written.contents == []
