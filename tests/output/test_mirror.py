"""What a slow reader costs: whole lines, which are counted exactly, and never an event."""

from __future__ import annotations

import fcntl
import json
import os
import re
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import PurePath

import anyio
import pytest

from ascend_supervisor.events.output import OutputDropped
from ascend_supervisor.events.supervisor import SignalReceived
from ascend_supervisor.output.console import MIRROR_BYTES, SLOW_READER, Console
from ascend_supervisor.output.console_thread import CUT, Plain
from ascend_supervisor.output.json_lines import JsonLines, Origin
from ascend_supervisor.output.mirror import Lines, Mirror
from ascend_supervisor.output.terminal import rank_label
from ascend_supervisor.output.text_lines import RawLines, TextLines
from ascend_supervisor.process_spec import ProcessSpec
from ascend_supervisor.reporters.event_log import json_log
from tests.running import wait_until

DEADLINE = 30.0
ORIGIN = Origin("job", "host", 7)
SPEC = ProcessSpec(("python",), PurePath("/w"), PurePath("/l"), rank=3, local_rank=1)
FORMS: dict[str, Callable[[], Lines]] = {
    "json": lambda: JsonLines(SPEC, 0),
    "text": lambda: TextLines(rank_label(3, 1, in_colour=False)),
    "raw": RawLines,
}


def numbered(count: int) -> list[bytes]:
    """Lines of which none is like another; some are shown in pieces."""
    return [
        b"line %d %b end %d" % (number, b"x" * (9000 if number % 50 == 0 else 90), number)
        for number in range(count)
    ]


def reads(data: bytes, size: int = 10_007) -> Iterator[bytes]:
    """As a pipe gives it: cut anywhere."""
    return (data[begin : begin + size] for begin in range(0, len(data), size))


class Reader:
    """Takes nothing until it is told to."""

    def __init__(self, fd: int) -> None:
        self.data = bytearray()
        self._fd = fd
        self._thread = threading.Thread(target=self._read, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> bytes:
        """Everything, once nobody writes any more."""
        self._thread.join(DEADLINE)
        assert not self._thread.is_alive()
        return bytes(self.data)

    def _read(self) -> None:
        with os.fdopen(self._fd, "rb", buffering=0) as pipe:
            while piece := pipe.read(1 << 20):
                self.data += piece


@contextmanager
def console_and_reader() -> Iterator[tuple[Console, Reader]]:
    read_end, write_end = os.pipe()
    yield Console(write_end), Reader(read_end)
    os.close(write_end)


def mirror_of(console: Console, form: str, told: list[int]) -> Mirror:
    """A rank's; ``told`` gets the counts, and a console of JSON the events."""
    report = json_log(console, ORIGIN, "info")

    def dropped(count: int, why: str) -> None:
        told.append(count)
        assert why == SLOW_READER
        if form == "json":
            report(OutputDropped(3, count, why))

    return Mirror(console, FORMS[form](), dropped, unexpected)


def unexpected(error: Exception) -> None:
    raise AssertionError(error)


async def until_it_must_drop(console: Console, mirror: Mirror, chunks: Iterator[bytes]) -> None:
    """Take what comes until the reader is found slow."""
    for chunk in chunks:
        mirror.take(chunk)
        await mirror.room()
        if console.obstacle:
            return
    raise AssertionError("the reader took it all")


def whole_lines(form: str, shown: bytes) -> list[bytes]:
    """The lines of the rank of which all was shown."""
    if form == "raw":
        return [line for line in shown.split(b"\n")[:-1] if not line.endswith(CUT[:-1])]
    if form == "text":
        assert {line[:9] for line in shown.split(b"\n")[:-1]} == {b"[rank 3] "}
        return [line[9:] for line in shown.split(b"\n")[:-1] if not line.endswith(CUT[:-1])]
    found, begun = [], bytearray()
    for event in map(json.loads, shown.splitlines()):
        if event["event"] == "output":
            begun += event["msg"].encode()
            if not event.get("partial"):
                found.append(bytes(begun))
                begun.clear()
        else:
            begun.clear()  # what was dropped does not go on
    return found


@pytest.mark.parametrize("form", FORMS)
async def test_lines_are_dropped_whole_and_counted_exactly(form):
    """The reader stands still, and goes on."""
    lines = numbered(60_000 if form == "json" else 150_000)
    chunks = reads(b"".join(line + b"\n" for line in lines))
    told: list[int] = []
    with console_and_reader() as (console, reader):
        mirror = mirror_of(console, form, told)
        with anyio.fail_after(DEADLINE):
            await until_it_must_drop(console, mirror, chunks)
            for _ in range(50):
                mirror.take(next(chunks))
            reader.start()
            for _ in range(50):
                mirror.take(next(chunks))
            while console.obstacle:
                await anyio.sleep(0.001)
            for chunk in chunks:
                await mirror.room()
                mirror.take(chunk)
            mirror.end()
            assert await console.finish()
    shown = whole_lines(form, reader.join())
    assert told
    assert len(shown) + sum(told) == len(lines)
    # In order, none joined to another, none cut.
    numbers = [int(line.split()[1]) for line in shown]
    assert numbers == sorted(set(numbers))
    assert shown == [lines[number] for number in numbers]


@pytest.mark.parametrize("form", FORMS)
async def test_a_line_without_an_end_is_dropped_whole(form):
    told: list[int] = []
    with console_and_reader() as (console, reader):
        mirror = mirror_of(console, form, told)
        with anyio.fail_after(DEADLINE):
            await until_it_must_drop(console, mirror, iter([b"y" * (MIRROR_BYTES + 2**21)]))
            mirror.take(b"z" * 100)
            reader.start()
            while console.obstacle:
                await anyio.sleep(0.001)
            mirror.take(b"zzz")
            mirror.take(b"zzz\nfollows\n")
            mirror.end()
            assert await console.finish()
    shown = reader.join()
    assert b"z" not in re.sub(rb'"ts":"[^"]*"', b"", shown)
    assert told == [1]
    assert whole_lines(form, shown)[-1] == b"follows"
    if form != "json":
        assert CUT in shown


@pytest.mark.parametrize("form", FORMS)
async def test_what_waits_at_the_end_is_dropped_up_to_a_whole_line(form):
    lines = numbered(60_000)
    told: list[int] = []
    with console_and_reader() as (console, reader):
        report = json_log(console, ORIGIN, "info")
        mirror = Mirror(console, FORMS[form](), lambda count, _: told.append(count), unexpected)
        for chunk in reads(b"".join(line + b"\n" for line in lines)):
            mirror.take(chunk)
        mirror.end()
        if form == "json":
            report(SignalReceived("SIGHUP", "an event of ours"))
        wait_until(lambda: unread(console) > 0)
        console.drop_output()
        reader.start()
        with anyio.fail_after(DEADLINE):
            assert await console.finish()
            console.tell_dropped()
            report(OutputDropped(3, sum(told), SLOW_READER))
            assert await console.finish()
    shown = reader.join()
    assert 0 < sum(told) < len(lines)
    if form == "json":
        events = [json.loads(line) for line in shown.splitlines()]
        assert [event["seq"] for event in events] == list(range(len(events)))
        assert [event["event"] for event in events[-2:]] == ["signal.received", "output.dropped"]
    else:
        shown, last, _ = shown.rsplit(b"\n", 2)
        shown += b"\n"
        assert json.loads(last)["event"] == "output.dropped"
    whole = whole_lines(form, shown)
    assert whole == lines[: len(whole)]
    assert len(whole) + sum(told) == len(lines)


@pytest.mark.parametrize("ending", [b"\n", b""])
async def test_a_drop_in_the_last_line_of_what_waits_ends_with_that_line(ending):
    with console_and_reader() as (console, reader):
        console.show(lambda _: b"x" * 3_000_000 + ending, lambda _: 1, lambda *_: None)
        wait_until(lambda: unread(console) > 0)  # it is being written
        console.drop_output()
        console.put(Plain(b"the last event\n"))
        reader.start()
        with anyio.fail_after(DEADLINE):
            assert await console.finish()
    shown = reader.join()
    assert shown.endswith(b"\nthe last event\n")
    assert shown.count(b"\n") == 2


def unread(console: Console) -> int:
    """Bytes in the pipe."""
    content = fcntl.ioctl(console._stream._fd, termios.FIONREAD, bytes(4))
    return int.from_bytes(content, sys.byteorder)


async def shown_by(*acts: Callable[[Mirror, Mirror], object]) -> bytes:
    """What is shown of two ranks, raw, after these acts, one after the other has been shown."""
    with console_and_reader() as (console, reader):
        reader.start()
        first, second = (Mirror(console, RawLines(), drops_nothing(), unexpected) for _ in "12")
        with anyio.fail_after(DEADLINE):
            for act in acts:
                before = len(reader.data)
                act(first, second)
                while act is not acts[-1] and len(reader.data) == before:
                    await anyio.sleep(0.001)
            first.end()
            second.end()
            assert await console.finish()
    return reader.join()


def drops_nothing() -> Callable[[int, str], None]:
    """A function of its own for each rank."""

    def dropped(count: int, why: str) -> None:
        raise AssertionError(count, why)

    return dropped


async def test_an_unfinished_line_is_shown_and_no_other_is_joined_to_it():
    shown = await shown_by(
        lambda one, _: one.take(b"whole\ncompiling"),
        lambda *_: None,  # " ..." comes while it is shown
        lambda one, _: one.take(b" ..."),
        lambda _, two: two.take(b"of another\n"),
        lambda one, _: one.take(b" done\n"),
        lambda one, _: one.take(b"the end"),
    )
    assert shown == b"whole\ncompiling ...\nof another\n done\nthe end"


async def test_halves_of_lines_of_several_ranks_are_never_joined():
    with console_and_reader() as (console, reader):
        mirrors = [Mirror(console, RawLines(), drops_nothing(), unexpected) for _ in range(8)]
        lines = [b"line %d of rank %d" % (line, rank) for line in range(20) for rank in range(8)]
        for begin in range(0, len(lines), 8):
            for mirror, line in zip(mirrors, lines[begin : begin + 8], strict=True):
                mirror.take(line[:9])
            for mirror, line in zip(mirrors, lines[begin : begin + 8], strict=True):
                mirror.take(line[9:] + b"\n")
        reader.start()
        with anyio.fail_after(DEADLINE):
            assert await console.finish()
    assert reader.join().splitlines() == lines


async def test_text_shows_an_unfinished_line_again_when_it_ends():
    with console_and_reader() as (console, reader):
        reader.start()
        mirror = Mirror(console, FORMS["text"](), drops_nothing(), unexpected)
        mirror.take(b"compiling ...")
        with anyio.fail_after(DEADLINE):
            while not reader.data:
                await anyio.sleep(0.001)
            mirror.take(b" done\n")
            assert await console.finish()
    assert reader.join() == b"[rank 3] compiling ...\n[rank 3] compiling ... done\n"
