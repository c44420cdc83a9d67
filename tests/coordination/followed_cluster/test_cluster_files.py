"""What looks at a reset file show: each change once, and nothing of what cannot be read."""

from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path, PosixPath

import anyio

from ascend_supervisor.cluster.reset_file import ResetFile
from ascend_supervisor.coordination.followed_cluster.cluster_files import ResetFileLook
from ascend_supervisor.coordination.followed_cluster.memory import Sight
from tests.running import DEADLINE_SECONDS

NOTHING = Sight(reset_is_there=True)
NO_ANSWER = Sight()
MISSING = Sight(reset_is_missing=True)


def trouble(why: str) -> Sight:
    return Sight(reset_is_there=True, reset_trouble=why)


def write(file: Path, retry_time: int) -> Sight:
    """Write in place, as the device plugin does; the sight that must follow."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"RankList": [], "UpdateTime": 1, "RetryTime": retry_time}))
    return Sight(reset=ResetFile(retry_time=retry_time), reset_is_there=True)


async def test_each_change_is_seen_once(tmp_path: Path) -> None:
    file = tmp_path / "config" / "reset.json"
    look = ResetFileLook(file)
    assert await look() == MISSING
    for retry_time in (9, 10, 110):
        sight = write(file, retry_time)
        assert [await look(), await look()] == [sight, NOTHING]


async def test_the_restart_type_beside_it_is_news_of_its_own(tmp_path: Path) -> None:
    file, beside = tmp_path / "reset.json", tmp_path / "restartType"
    look = ResetFileLook(file)
    alone = write(file, 1)
    assert await look() == alone
    for data, told in (
        (b"hotReset", "hotReset"),
        (b"podReschedule\n", "podReschedule"),
        (b"hotRe", ""),
        (b"\xff" * 10_000, ""),
    ):
        beside.write_bytes(data)
        seen = Sight(reset=ResetFile(retry_time=1, restart_type=told), reset_is_there=True)
        assert [await look(), await look()] == [seen, NOTHING]
    beside.unlink()
    assert [await look(), await look()] == [alone, NOTHING]
    beside.mkdir()
    assert [await look(), await look()] == [alone, NOTHING]


async def test_a_directory_that_is_unlinked_and_made_again_is_followed(tmp_path: Path) -> None:
    file = tmp_path / "config" / "reset.json"
    look = ResetFileLook(file)
    first = write(file, 1)
    assert await look() == first
    shutil.rmtree(file.parent)
    assert [await look(), await look()] == [MISSING, MISSING]
    again = write(file, 1)
    assert await look() == again


async def test_a_config_map_that_is_swapped_is_followed(tmp_path: Path) -> None:
    write(tmp_path / "..1" / "reset.json", 1)
    second = write(tmp_path / "..2" / "reset.json", 2)
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "reset.json").symlink_to("..data/reset.json")
    look = ResetFileLook(tmp_path / "reset.json")
    await look()
    (tmp_path / "..new").symlink_to("..2")
    (tmp_path / "..new").rename(tmp_path / "..data")
    shutil.rmtree(tmp_path / "..1")
    assert await look() == second


async def test_a_torn_file_is_no_news_and_is_read_again_when_it_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "reset.json"
    look = ResetFileLook(file)
    for torn in ("", '{"RankList":[],"Retry'):
        file.write_text(torn)
        assert await look() == NOTHING
    whole = write(file, 3)
    assert await look() == whole


async def test_what_is_no_file_is_no_news_and_what_takes_its_place_is_read(tmp_path: Path) -> None:
    file = tmp_path / "reset.json"
    look = ResetFileLook(file)
    file.mkdir()
    assert await look() == trouble("it is a directory")
    file.rmdir()
    os.mkfifo(file)
    assert await look() == trouble("it is not a regular file, but a named pipe")
    file.unlink()
    file.symlink_to(file)
    assert await look() == trouble("Too many levels of symbolic links")
    file.unlink()
    whole = write(file, 3)
    assert await look() == whole


async def test_a_huge_file_is_not_read_every_second(tmp_path: Path) -> None:
    file = tmp_path / "reset.json"
    write(file, 3)
    os.truncate(file, 10 * 1024**3)
    look = ResetFileLook(file)
    before = read_by_us()
    assert [await look() for _ in range(20)] == [trouble("it is larger than 4194304 bytes")] * 20
    assert read_by_us() - before < 4 * 1024 * 1024
    whole = write(file, 3)
    assert await look() == whole


def read_by_us() -> int:
    """Bytes that this process has read so far."""
    counters = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counters["rchar"])


class SlowPath(PosixPath):
    """A path on a file system that answers its first question when ``go_on`` is set."""

    go_on: threading.Event

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        found = super().stat(follow_symlinks=follow_symlinks)
        self.go_on.wait(DEADLINE_SECONDS)
        return found


async def test_an_answer_that_came_too_late_is_asked_for_again(tmp_path: Path) -> None:
    SlowPath.go_on = threading.Event()
    whole = write(tmp_path / "reset.json", 3)
    look = ResetFileLook(SlowPath(tmp_path / "reset.json"), deadline=0.05)
    assert [await look(), await look()] == [NO_ANSWER, NO_ANSWER]
    SlowPath.go_on.set()
    seen = NO_ANSWER
    with anyio.fail_after(DEADLINE_SECONDS):
        while seen == NO_ANSWER:
            seen = await look()
            await anyio.sleep(0.01)
    assert seen == whole
