"""A thread that writes: who offers something knows whether it makes progress."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import anyio
import pytest

from ascend_supervisor.files.writer_thread import Writer
from tests.running import DEADLINE_SECONDS

SOON = 0.05


class Disk:
    """Takes an item, and waits with it while it is ``stuck``."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.written: list[bytes] = []
        self.threads: set[threading.Thread] = set()

    def write(self, item: bytes) -> None:
        self.threads.add(threading.current_thread())
        self.goes_on.wait()
        self.written.append(item)


@pytest.fixture
def disk() -> Iterator[Disk]:
    made = Disk()
    yield made
    made.goes_on.set()


async def until_empty(writer: Writer[bytes]) -> None:
    with anyio.fail_after(DEADLINE_SECONDS):
        while not await writer.below(0):
            await anyio.sleep(0.001)


async def test_items_are_written_in_order_by_one_other_thread_which_ends_when_it_is_closed(disk):
    writer = Writer(disk.write, "a disk")
    items = [b"%d" % number for number in range(100)]
    for item in items:
        writer.put(item)
    writer.close()
    await until_empty(writer)
    assert disk.written == items
    (thread,) = disk.threads
    assert thread is not threading.current_thread()
    await anyio.to_thread.run_sync(thread.join, DEADLINE_SECONDS)
    assert not thread.is_alive()


async def test_a_write_that_does_not_return_is_told_and_waited_for_no_longer(disk):
    disk.goes_on.clear()
    writer = Writer(disk.write, "a disk", stall_seconds=SOON)
    assert writer.obstacle() is None
    writer.put(b"item")
    with anyio.fail_after(DEADLINE_SECONDS):
        assert not await writer.below(0)
    assert writer.obstacle() == writer.stall() == f"a write has not returned for {SOON} s"
    disk.goes_on.set()
    await until_empty(writer)
    assert writer.obstacle() is None


async def test_a_refusal_is_an_obstacle_at_once_until_writing_goes_on(disk):
    disk.goes_on.clear()
    writer = Writer(disk.write, "a disk")
    writer.put(b"item")
    writer.refuse("the disk is full")
    assert writer.obstacle() == "the disk is full"
    assert writer.stall() is None
    assert not await writer.below(0)
    writer.refuse(None)
    disk.goes_on.set()
    await until_empty(writer)
    assert writer.obstacle() is None


async def test_an_item_counts_by_what_of_it_is_not_written_yet():
    go_on = threading.Event()

    def write(item: bytes) -> None:
        writer.progressed(60)
        go_on.wait()

    writer: Writer[bytes] = Writer(write, "a slow disk")
    writer.put(b"item", 100)
    with anyio.fail_after(DEADLINE_SECONDS):
        assert await writer.below(40)
    assert writer.queued == 40
    go_on.set()
    await until_empty(writer)
    writer.close()


async def test_nothing_is_queued_only_when_the_last_write_has_returned(disk):
    """A line of the console is followed by the last line of the terminal, which counts nothing."""

    def write(item: bytes) -> None:
        writer.progressed(2 * len(item))
        disk.write(item)

    disk.goes_on.clear()
    writer = Writer(write, "a disk")
    writer.put(b"a line", 6)
    with anyio.fail_after(DEADLINE_SECONDS):
        assert await writer.below(1)
    with anyio.move_on_after(SOON):
        await writer.below(0)
    assert writer.queued == 1
    disk.goes_on.set()
    await until_empty(writer)
    assert disk.written == [b"a line"]
