"""File events make a look come earlier; without them it comes all the same."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from ascend_supervisor.files.watch import FileWatch
from tests.running import DEADLINE_SECONDS

LONG, SHORT = 600.0, 0.01


@asynccontextmanager
async def watched(watch: FileWatch, where: Callable[[], Path]) -> AsyncIterator[None]:
    with anyio.fail_after(DEADLINE_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch.watch, where)
            yield
            tasks.cancel_scope.cancel()


async def test_an_event_in_the_directory_ends_the_wait(tmp_path):
    # Another test may forbid all watches for a moment; so it is tried again, and no reason counts.
    watch = FileWatch(lambda _: None, poll_seconds=LONG)
    over = anyio.Event()

    async def wait() -> None:
        await watch.tick()
        over.set()

    async with watched(watch, lambda: tmp_path), anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        while not over.is_set():  # it is not known when the watch has begun
            (tmp_path / "table").touch()
            await anyio.sleep(SHORT)


async def test_without_an_event_the_wait_ends_as_well(tmp_path):
    watch = FileWatch(lambda _: None, poll_seconds=SHORT)
    with anyio.fail_after(DEADLINE_SECONDS):
        await watch.tick()


async def test_what_cannot_be_watched_is_told_once_however_often_it_is_tried(tmp_path):
    reasons: list[str] = []
    tries: list[Path] = []

    (tmp_path / "config").touch()

    def no_directory() -> Path:
        tries.append(tmp_path / "config")
        return tries[-1]

    watch = FileWatch(reasons.append, poll_seconds=SHORT)
    async with watched(watch, no_directory):
        while len(tries) < 3:
            await anyio.sleep(SHORT)
    (reason,) = reasons
    assert "Not a directory" in reason


async def test_a_directory_that_does_not_exist_yet_is_no_reason_for_alarm(tmp_path):
    reasons: list[str] = []
    tries: list[Path] = []

    def missing() -> Path:
        tries.append(tmp_path / "config")
        return tries[-1]

    async with watched(FileWatch(reasons.append, poll_seconds=SHORT), missing):
        while len(tries) < 3:
            await anyio.sleep(SHORT)
    assert reasons == []
