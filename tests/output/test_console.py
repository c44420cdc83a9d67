"""Our stdout where nobody reads it, and where a disk refuses it."""

from __future__ import annotations

import json
import os

import anyio

from ascend_supervisor.output.console import Console
from ascend_supervisor.output.console_thread import Numbered, Plain
from tests.running import DEADLINE_SECONDS


async def test_lines_are_numbered_as_they_are_written_and_plain_lines_are_not():
    read_end, write_end = os.pipe()
    console = Console(write_end)
    for line in (Numbered(b'{"a":0}\n'), Plain(b'"plain"\n'), Numbered(b'{"b":1}\n')):
        console.put(line)
    with anyio.fail_after(DEADLINE_SECONDS):
        assert await console.finish()
    lines = os.read(read_end, 1000).splitlines()
    os.close(read_end)
    os.close(write_end)
    assert list(map(json.loads, lines)) == [{"seq": 0, "a": 0}, "plain", {"seq": 1, "b": 1}]


async def test_a_reader_that_has_gone_is_known_at_the_end():
    read_end, write_end = os.pipe()
    os.close(read_end)
    console = Console(write_end)
    console.put(Plain(b"a line\n"))
    with anyio.fail_after(DEADLINE_SECONDS):
        assert not await console.finish()
    os.close(write_end)


async def test_a_disk_that_refuses_is_told_once_and_asked_again():
    reasons: list[str] = []
    disk, other = os.open("/dev/full", os.O_WRONLY), os.open(os.devnull, os.O_WRONLY)
    console = Console(disk, reasons.append)
    console.put(Plain(b"a line\n"))
    console.put(Plain(b"another\n"))
    with anyio.fail_after(DEADLINE_SECONDS):
        while not reasons:
            await anyio.sleep(0.001)
        assert not await console.finish()
        os.dup2(other, disk)  # it has room again
        assert await console.finish()
    assert reasons == ["No space left on device"]
    os.close(disk)
    os.close(other)
