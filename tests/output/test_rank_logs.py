"""The logs of the ranks, where one cannot be opened."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from ascend_supervisor.errors import CannotWrite
from ascend_supervisor.output.log_file import Rotation
from ascend_supervisor.output.rank_logs import RankLogs
from ascend_supervisor.process_spec import ProcessSpec
from tests.running import DEADLINE_SECONDS

TIMES = 5


def spec(log: Path) -> ProcessSpec:
    return ProcessSpec(("true",), Path("/"), log, rank=0)


async def until(holds: Callable[[], object]) -> None:
    with anyio.fail_after(DEADLINE_SECONDS):
        while not holds():
            await anyio.sleep(0.005)


def writers(log: Path) -> list[str]:
    return [thread.name for thread in threading.enumerate() if log.name in thread.name]


async def refused(log: Path) -> None:
    """Again and again, as by a group that is restarted."""
    logs = RankLogs(Rotation(1 << 30, 1), "a test", lambda _: None)
    for _ in range(TIMES):
        with pytest.raises(CannotWrite, match=str(log)):
            await logs.open([spec(log)])
    await logs.finish()


async def test_a_log_that_is_refused_leaves_no_thread(tmp_path):
    log = tmp_path / "nowhere" / "refused.txt"
    log.parent.write_text("no directory")
    await refused(log)
    await until(lambda: not writers(log))


async def test_a_log_without_room_for_its_first_line_leaves_no_open_file(small_disk):
    log = small_disk / "full.txt"
    with pytest.raises(OSError, match="No space left"):
        (small_disk / "filler").write_bytes(b"x" * (16 << 20))
    await refused(log)
    await until(lambda: not writers(log))
    opened = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    assert log not in opened


async def test_a_log_that_can_be_opened_has_a_thread_until_the_end(tmp_path):
    log = tmp_path / "fine.txt"
    logs = RankLogs(Rotation(1 << 30, 1), "a test", lambda _: None)
    for generation in range(TIMES):
        await logs.open([spec(log)])
        logs.begin(spec(log), generation)
    assert len(writers(log)) == 1
    await logs.finish()
    await until(lambda: not writers(log))


async def test_logs_that_were_refused_together_are_all_made_at_the_next_try(tmp_path):
    folder = tmp_path / "later"
    folder.write_text("no directory yet")
    specs = [spec(folder / f"rank_{rank}.txt") for rank in range(3)]
    logs = RankLogs(Rotation(1 << 30, 1), "a test", lambda _: None)
    with pytest.raises(CannotWrite, match="rank_0"):
        await logs.open(specs)
    folder.unlink()
    folder.mkdir()
    await logs.open(specs)
    for one in specs:
        logs.begin(one, 0)
    await logs.finish()
    assert sorted(path.name for path in folder.iterdir()) == [Path(one.log).name for one in specs]
