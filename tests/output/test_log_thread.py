"""What a disk does not take is counted, to the byte."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from ascend_supervisor.files.writer_thread import STALL_SECONDS
from ascend_supervisor.output.log_file import LogFile, Rotation
from ascend_supervisor.output.log_thread import BUFFER_BYTES, LogWriter

CHUNK = b"x" * (256 * 1024 - 1) + b"\n"


class Heard:
    """Listens; safe in any thread."""

    def __init__(self) -> None:
        self.losses: list[tuple[int, str]] = []
        self.reasons: list[str] = []
        self.rotations = 0

    def blocked(self, reason: str) -> None:
        self.reasons.append(reason)

    def lost(self, size: int, reason: str) -> None:
        self.losses.append((size, reason))

    def rotated(self) -> None:
        self.rotations += 1


def writer(
    path: Path, heard: Heard, max_bytes: int = 1 << 30, stall_seconds: float = STALL_SECONDS
) -> LogWriter:
    file = LogFile(path, Rotation(max_bytes, 9), lambda: b"")
    return LogWriter(
        file,
        heard,
        lambda size, reason: f"lost {size}: {reason}\n".encode(),
        stall_seconds=stall_seconds,
    )


async def looking_until(log: LogWriter, holds: Callable[[], object]) -> None:
    with anyio.fail_after(30):
        while not holds():
            log.look()
            await anyio.sleep(0.001)


async def test_while_the_disk_makes_progress_nothing_is_lost(tmp_path):
    heard = Heard()
    log = writer(tmp_path / "log", heard)
    await log.opened()
    with anyio.fail_after(30):
        for _ in range(200):
            await log.room()
            log.take(CHUNK)
        await log.finish()
    assert (tmp_path / "log").read_bytes() == CHUNK * 200
    assert heard.losses == []


async def test_a_write_that_does_not_return_costs_what_exceeds_the_buffer(tmp_path):
    os.mkfifo(tmp_path / "log")
    reader = os.open(tmp_path / "log", os.O_RDONLY | os.O_NONBLOCK)
    heard = Heard()
    log = writer(tmp_path / "log", heard, stall_seconds=0.3)
    await log.opened()
    with anyio.fail_after(30):
        for _ in range(100):
            await log.room()
            log.take(CHUNK)
    assert heard.reasons == ["a write has not returned for 0.3 s"]
    received = bytearray()
    os.set_blocking(reader, True)
    thread = threading.Thread(target=read_all, args=(reader, received))
    thread.start()
    with anyio.fail_after(30):
        while not heard.losses:
            await anyio.sleep(0.01)
        log.take(b"after\n")
        await log.finish()
    log._file.close()
    await anyio.to_thread.run_sync(thread.join)
    (size, reason), *more = heard.losses
    assert more == []
    assert 0 < 100 * len(CHUNK) - size <= BUFFER_BYTES + 2 * len(CHUNK)
    kept = (100 * len(CHUNK) - size) // len(CHUNK)
    assert bytes(received) == CHUNK * kept + f"lost {size}: {reason}\n".encode() + b"after\n"


def read_all(descriptor: int, into: bytearray) -> None:
    while piece := os.read(descriptor, 1 << 20):
        into += piece
    os.close(descriptor)


async def test_what_is_never_written_is_counted_at_the_end(small_disk):
    heard = Heard()
    log = writer(small_disk / "log", heard)
    await log.opened()
    with anyio.fail_after(30):
        for _ in range(100):
            await log.room()
            log.take(CHUNK)
        await log.finish()
    written = (small_disk / "log").stat().st_size
    lost = sum(size for size, _ in heard.losses)
    # The chunk on which the disk filled up counts as unwritten as a whole.
    assert 0 <= lost - (100 * len(CHUNK) - written) < len(CHUNK)
    assert set(heard.reasons) == {"No space left on device"}


async def test_what_was_refused_is_tried_once_more_at_the_end(tmp_path):
    """The disk may have room again, or the directory be there again, since it was last asked."""
    heard = Heard()
    home = tmp_path / "logs"
    log = writer(home / "log", heard)
    await log.opened()
    shutil.rmtree(home)
    home.touch()
    taken = 0
    with anyio.fail_after(30):
        while not heard.reasons:
            log.take(CHUNK)
            taken += 1
            await log.room()
        home.unlink()
        await log.finish()
    assert heard.losses == [(len(CHUNK), heard.reasons[0])]
    gap = f"lost {len(CHUNK)}: {heard.reasons[0]}\n".encode()
    assert (home / "log").read_bytes() == CHUNK * (taken - 1) + gap


async def test_a_disk_that_refuses_is_told_once_until_it_was_well_in_between(tmp_path):
    heard = Heard()
    path = tmp_path / "log"
    log = writer(path, heard, stall_seconds=0.3)
    await log.opened()
    for _ in range(2):  # the second is told as the first was
        path.unlink()
        path.mkdir()
        for _ in range(3):
            log.take(b"a line\n")
            await looking_until(log, lambda: heard.reasons)
        for _ in range(10):
            log.look()
        assert heard.reasons == ["Is a directory"]
        heard.reasons.clear()
        path.rmdir()
        await looking_until(log, lambda: log._writer.queued == 0)
        log.look()  # at the latest now: it is well
        assert path.read_bytes() == 3 * b"a line\n"
    await log.finish()
    assert heard.losses == []


async def test_a_disk_that_is_silent_is_told_once_although_little_is_said(tmp_path):
    os.mkfifo(tmp_path / "log")
    reader = os.open(tmp_path / "log", os.O_RDONLY | os.O_NONBLOCK)
    heard = Heard()
    log = writer(tmp_path / "log", heard, stall_seconds=0.3)
    await log.opened()
    log.take(CHUNK)
    await looking_until(log, lambda: heard.reasons)
    await log.finish()
    os.close(reader)
    log._file.close()
    assert heard.reasons == ["a write has not returned for 0.3 s"]
    assert heard.losses == [(len(CHUNK), heard.reasons[0])]


async def test_a_log_that_cannot_be_made_says_why(tmp_path):
    (tmp_path / "file").touch()
    log = writer(tmp_path / "file" / "log", Heard())
    with pytest.raises(NotADirectoryError):
        await log.opened()


async def test_notices_start_a_line(tmp_path):
    log = writer(tmp_path / "log", Heard())
    await log.opened()
    log.take(b"no newline")
    log.notice(b"notice\n")
    await log.finish()
    assert (tmp_path / "log").read_bytes() == b"no newline\nnotice\n"


async def test_rotation_under_load_loses_and_cuts_nothing(tmp_path):
    heard = Heard()
    log = writer(tmp_path / "log", heard, max_bytes=1 << 20)
    await log.opened()
    lines = [b"%06d " % number + b"y" * (number % 300) + b"\n" for number in range(30_000)]
    text = b"".join(lines)
    for start in range(0, len(text), 50_000):
        await log.room()
        log.take(text[start : start + 50_000])
        if start % 1_000_000 == 0:
            log.reopen()
    await log.finish()
    files = sorted(tmp_path.iterdir(), key=lambda path: -int(path.suffix[1:] or 0))
    parts = [path.read_bytes() for path in files]
    assert len(parts) >= 4
    assert all(part.endswith(b"\n") for part in parts)
    assert b"".join(parts) == text
    assert heard.rotations == len(parts) - 1
