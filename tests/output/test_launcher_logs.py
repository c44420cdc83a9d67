"""The logs that a launcher's workers write themselves: what is known of them as they grow."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from ascend_supervisor.events import Event
from ascend_supervisor.output.console import Console
from ascend_supervisor.output.launcher_logs import WorkerLogs
from ascend_supervisor.output.mirror import Mirror
from ascend_supervisor.output.text_lines import RawLines
from ascend_supervisor.process_spec import ProcessSpec, WorkerLog
from ascend_supervisor.tasks.clock import MonotonicClock
from tests.running import DEADLINE_SECONDS


def unexpected(error: Exception) -> None:
    raise error


async def until(holds: Callable[[], object]) -> None:
    with anyio.fail_after(DEADLINE_SECONDS):
        while not holds():
            await anyio.sleep(0.005)


@pytest.mark.parametrize("is_shown", [True, False])
async def test_how_much_a_worker_has_written_is_known_whether_it_is_shown_or_not(
    tmp_path: Path, is_shown: bool
):
    shown, events = tmp_path / "shown", list[Event]()
    descriptor = os.open(shown, os.O_WRONLY | os.O_CREAT)
    console = Console(descriptor)

    def mirror(_: ProcessSpec) -> Mirror | None:
        return Mirror(console, RawLines(), lambda *_: None, unexpected) if is_shown else None

    paths = [tmp_path / f"worker_{rank}.log" for rank in range(2)]
    msrun = ProcessSpec(
        ("msrun",),
        tmp_path,
        tmp_path / "log",
        worker_logs=tuple(WorkerLog(path, rank, rank) for rank, path in enumerate(paths)),
    )
    logs = WorkerLogs(msrun, mirror, MonotonicClock(), events.append)
    speaks, silent = logs.activities
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(logs.run)
        paths[0].write_bytes(b"x" * 100)
        await until(lambda: speaks.bytes == 100)
        paths[0].rename(tmp_path / "worker_0.log.1")
        paths[0].write_bytes(b"y" * 50)
        await until(lambda: speaks.bytes == 150)
        tasks.cancel_scope.cancel()
    await logs.finish(DEADLINE_SECONDS)
    assert silent.bytes == 0
    assert silent.spoke_at < speaks.spoke_at
    assert events == []
    assert await console.finish()
    assert shown.read_bytes() == (b"x" * 100 + b"y" * 50 if is_shown else b"")
    os.close(descriptor)


async def test_a_log_that_is_written_anew_tells_that_its_worker_speaks_though_its_size_is_the_same(
    tmp_path: Path,
):
    log = tmp_path / "worker_0.log"
    msrun = ProcessSpec(
        *(("msrun",), tmp_path, tmp_path / "log"), worker_logs=(WorkerLog(log, 0, 0),)
    )
    logs = WorkerLogs(msrun, lambda _: None, MonotonicClock(), lambda _: None)
    (worker,) = logs.activities
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(logs.run)
        log.write_bytes(b"x" * 100)
        await until(lambda: worker.bytes == 100)
        spoke_at = worker.spoke_at
        log.write_bytes(b"y" * 100)
        await until(lambda: worker.spoke_at > spoke_at)
        tasks.cancel_scope.cancel()
