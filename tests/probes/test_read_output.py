"""An output as it is read for steps: what was not kept of it becomes part of no record."""

from __future__ import annotations

from ascend_supervisor.output.last_lines import KEPT_BYTES, Activity
from ascend_supervisor.probes.read_output import ReadOutput
from ascend_supervisor.progress.reader import Reader

LINES = b"epoch: 1 step: 7, loss is 0.1\n"


def test_of_much_output_the_end_is_read():
    output = Activity(0.0)
    source = ReadOutput(0, output, Reader())
    output.take(b"epoch: 1 step: 5, loss is 0.1\n" + b"x" * 99 + b"\n" + LINES, 1.0)
    assert [one.step for one in source.read(1.0, most=len(LINES) + 5)] == [7]
    assert source.read(2.0) == []


def test_what_is_kept_no_more_does_not_end_the_record_before_it():
    output = Activity(0.0)
    source = ReadOutput(0, output, Reader())
    output.take(b"epoch: 1 step: 5", 1.0)
    assert source.read(1.0) == []
    output.take(b"x\n" * KEPT_BYTES, 2.0)
    output.take(b"0, loss is 0.1\n" + LINES, 2.0)
    output.tail = output.tail[-len(b"0, loss is 0.1\n" + LINES) :]
    assert [one.step for one in source.read(3.0)] == [7]
