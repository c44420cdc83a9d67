"""A file of which only the newest content matters, and which is kept where it is."""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from ascend_supervisor.files.writer_thread import LatestFile

LOOK_SECONDS = 0.01


class Disk:
    """Counts how often ``path`` was written, and looked at."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.writes = 0
        self.looks = 0
        self.complaints: list[OSError] = []

    def write(self, content: bytes) -> None:
        self.writes += 1
        self.path.write_bytes(content)

    def has_it(self) -> bool:
        self.looks += 1
        return self.path.exists()


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    home = tmp_path / "home"
    home.mkdir()
    return Disk(home / "latest")


@pytest.fixture
def latest(disk: Disk) -> LatestFile[bytes]:
    return LatestFile(disk.write, disk.complaints.append, "a file")


@asynccontextmanager
async def kept(latest: LatestFile[bytes], disk: Disk) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(latest.keep, disk.has_it, LOOK_SECONDS)
        yield
        tasks.cancel_scope.cancel()


async def until(holds: Callable[[], object]) -> None:
    with anyio.fail_after(30):
        while not holds():
            await anyio.sleep(0.001)


async def test_only_the_newest_content_is_there_at_the_end(latest, disk):
    for number in range(1000):
        latest.put(b"%d" % number)
    assert await latest.finish()
    assert disk.path.read_bytes() == b"999"
    assert disk.writes < 1000


async def test_what_was_removed_is_written_again(latest, disk):
    latest.put(b"content")
    async with kept(latest, disk):
        for remove in (disk.path.unlink, lambda: disk.path.rename(disk.path.with_name("old"))):
            await until(disk.path.exists)
            remove()
        await until(disk.path.exists)
    assert await latest.finish()
    assert disk.path.read_bytes() == b"content"


async def test_what_is_still_there_is_not_written_again(latest, disk):
    latest.put(b"content")
    async with kept(latest, disk):
        await until(lambda: disk.looks > 5)
    assert await latest.finish()
    assert disk.writes == 1


async def test_what_could_not_be_written_is_tried_again_and_told_once(latest, disk):
    disk.path.parent.rmdir()
    latest.put(b"content")
    async with kept(latest, disk):
        await until(lambda: disk.writes > 5)
        disk.path.parent.mkdir()
        await until(disk.path.exists)
    assert await latest.finish()
    assert disk.path.read_bytes() == b"content"
    assert len(disk.complaints) == 1


@pytest.mark.parametrize(
    ("lacking", "writes"), [(errno.EMFILE, 3), (errno.ENFILE, 3), (errno.ENOSPC, 1)]
)
async def test_the_last_content_waits_for_a_descriptor_that_another_one_has(disk, lacking, writes):
    calls: list[bytes] = []

    def write(content: bytes) -> None:
        calls.append(content)
        if len(calls) < 3:
            raise OSError(lacking, "lacking")
        disk.write(content)

    latest = LatestFile(write, disk.complaints.append, "a file")
    latest.put(b"the end")
    assert await latest.finish()
    assert len(calls) == writes
    assert disk.path.exists() is (writes == 3)
    assert [error.errno for error in disk.complaints] == [lacking]
