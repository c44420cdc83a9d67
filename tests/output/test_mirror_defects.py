"""A rank's way to the console, where rendering fails: by a part that the test brings."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import pytest

from ascend_supervisor.output.console import Console, Rendered
from ascend_supervisor.output.mirror import Lines, Mirror
from ascend_supervisor.output.pump import Pump
from ascend_supervisor.processes.children import Children
from ascend_supervisor.reporters.python_warnings import unshown


class Upset:
    """Shows a chunk as it is, but not one that holds what it is ``upset_by``."""

    def __init__(self, upset_by: bytes) -> None:
        self._upset_by = upset_by
        self._pending = b""

    def render(self, chunk: bytes, moment: float, seq: int) -> tuple[Rendered, int]:
        lines, end, self._pending = (self._pending + chunk).rpartition(b"\n")
        self._look_at(lines)
        return lines + end, seq + lines.count(b"\n") + len(end)

    def rest(self, moment: float, seq: int) -> tuple[Rendered, int]:
        pending, self._pending = self._pending, b""
        self._look_at(pending)
        return pending, seq

    def cut(self) -> Rendered:
        self._pending = b""
        return b""

    def ends(self, shown: Rendered) -> int:
        return shown.count(b"\n")

    def _look_at(self, data: bytes) -> None:
        if self._upset_by in data:
            raise LookupError("nobody expected this")


class Reader:
    """A console on a pipe, and what came through it."""

    def __init__(self) -> None:
        self._read_end, self._write_end = os.pipe()
        self.console = Console(self._write_end)
        self.told: list[Exception] = []

    def mirror(self, lines: Lines) -> Mirror:
        return Mirror(self.console, lines, lambda *_: None, self.told.append)

    async def shown(self) -> bytes:
        assert await self.console.finish()
        os.close(self._write_end)
        with os.fdopen(self._read_end, "rb") as pipe:
            return pipe.read()


async def test_a_defect_in_rendering_costs_the_chunk_and_is_told_once():
    reader = Reader()
    mirror = reader.mirror(Upset(b"bad"))
    for chunk in (b"one\n", b"bad\n", b"two\nbegun", b" and bad\n", b"three\n", b"bad again"):
        mirror.take(chunk)
    mirror.end()
    assert reader.console.seq == 3
    assert await reader.shown() == b"one\ntwo\nthree\n"
    (error,) = reader.told
    assert isinstance(error, LookupError)


@pytest.mark.parametrize("upset_by", [b"bad", b""])
async def test_a_process_is_heard_to_its_end_though_it_cannot_be_shown(upset_by):
    """An exception out of a pump would end the job with 70."""
    reader, log = Reader(), Log()
    pump = Pump(log, reader.mirror(Upset(upset_by)), lambda _: None)
    source = "import sys\nfor word in ('one', 'bad', 'two'): print(word, flush=True)"
    children = Children()
    child = children.spawn(
        (sys.executable, "-c", source), environ={}, cwd="/", output=pump.write_end
    )
    pump.started()
    await pump.run()
    while child.status is None:
        children.reap()
    pump.finish()
    assert child.status.ok
    assert log.taken == b"one\nbad\ntwo\n"
    assert b"bad" not in await reader.shown()
    assert len(reader.told) == 1


class Log:
    """Takes everything."""

    def __init__(self) -> None:
        self.taken = b""

    def take(self, chunk: bytes) -> None:
        self.taken += chunk

    async def room(self) -> None:
        pass


def raised(act: Callable[[], object]) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        act()
    return caught.value


def test_it_is_told_as_a_warning_that_asks_to_report_it():
    event = unshown("rank 3", raised(lambda: Upset(b"").rest(0.0, 0)))
    assert event.severity == "warning"
    assert "output of rank 3 is missing on stdout" in event.msg
    assert "please report it: LookupError('nobody expected this')" in event.msg
    assert event.traceback is not None
    assert "_look_at" in event.traceback
