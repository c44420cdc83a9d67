"""A rank's way to the console, where rendering fails: by a part that the test brings."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from ascend_supervisor.output.console import Console
from ascend_supervisor.output.console_thread import Rendered
from ascend_supervisor.output.log_file import Rotation
from ascend_supervisor.output.mirror import Lines, Mirror
from ascend_supervisor.output.pump import Pump, Sink
from ascend_supervisor.output.rank_logs import RankLogs
from ascend_supervisor.process_spec import ProcessSpec
from ascend_supervisor.processes.children import Children
from ascend_supervisor.reporters.python_warnings import unshown
from ascend_supervisor.tasks.clock import MonotonicClock


class Upset:
    """Shows lines as they are, with numbers, but not those that hold what it is ``upset_by``."""

    growth = 1.0

    def __init__(self, upset_by: bytes) -> None:
        self._upset_by = upset_by
        self._pending = b""

    def render(self, chunk: bytes, moment: float, numbers: Iterator[int]) -> Rendered:
        *lines, self._pending = (self._pending + chunk).split(b"\n")
        return b"".join(b"%d %b\n" % (next(numbers), self._looked_at(line)) for line in lines)

    def unfinished(self) -> Rendered:
        return b""

    def rest(self, moment: float, numbers: Iterator[int]) -> Rendered:
        pending, self._pending = self._pending, b""
        return self._looked_at(pending)

    def cut(self) -> Rendered:
        self._pending = b""
        return b""

    def ends(self, shown: Rendered) -> int:
        return shown.count(b"\n")

    def _looked_at(self, data: bytes) -> bytes:
        if self._upset_by in data:
            raise LookupError("nobody expected this")
        return data


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
    for chunk in (b"one\n", b"bad\n", b"two\nbegun", b" and\nbad\n", b"three\n", b"bad again"):
        mirror.take(chunk)
    mirror.end()
    assert await reader.shown() == b"0 one\n1 two\n2 three\n"
    (error,) = reader.told
    assert isinstance(error, LookupError)


@pytest.mark.parametrize("upset_by", [b"bad", b""])
async def test_a_process_is_heard_to_its_end_though_it_cannot_be_shown(tmp_path, upset_by):
    """An exception out of a pump would end the job with 70."""
    reader, logs = Reader(), RankLogs(Rotation(1 << 30, 1), "a test", lambda _: None)
    spec = ProcessSpec(("python",), tmp_path, tmp_path / "log", rank=0)
    await logs.open([spec])
    pump = Pump(Sink(logs.begin(spec, 0), reader.mirror(Upset(upset_by)), MonotonicClock()))
    source = "import sys\nfor word in ('one', 'bad', 'two'): print(word, flush=True)"
    children = Children()
    with pump.write_end() as write_end:
        child = children.spawn(
            (sys.executable, "-c", source), environ={}, cwd="/", output=write_end
        )
    await pump.run()
    while child.returncode is None:
        children.reap()
    pump.finish()
    assert child.returncode == 0
    await logs.finish()
    assert (tmp_path / "log").read_bytes().endswith(b" begins\none\nbad\ntwo\n")
    assert b"bad" not in await reader.shown()
    assert len(reader.told) == 1


def raised(act: Callable[[], object]) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        act()
    return caught.value


def test_it_is_told_as_a_warning_that_asks_to_report_it():
    event = unshown("rank 3", raised(lambda: Upset(b"").rest(0.0, count())))
    assert event.severity == "warning"
    assert "output of rank 3 is missing on stdout" in event.msg
    assert "please report it: LookupError('nobody expected this')" in event.msg
    assert event.traceback is not None
    assert "_looked_at" in event.traceback
