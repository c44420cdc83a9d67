"""What whoever reads our stdout does on a bad day."""

from __future__ import annotations

import os
import threading
from collections import Counter

import pytest

from tests.running import DEADLINE_SECONDS, python

ORDINARY = pytest.mark.parametrize("way", ["ordinary"], indirect=True)
"""What a reader does is the same to us in all ways."""

FLOODED = 3_000_000

FLOOD = """
import os
block = b"loss 0.5\\n" * 8000
for _ in range(MANY):
    view = memoryview(block)
    while view:
        view = view[os.write(1, view):]
""".replace("MANY", str(FLOODED // 8000))


@ORDINARY
@pytest.mark.parametrize("form", ["json", "text", "raw"])
def test_a_reader_that_keeps_up_gets_every_line(bad_day, form):
    read_end, write_end = os.pipe()
    counts = Counter[str]()
    reader = threading.Thread(target=count_lines, args=(read_end, counts), daemon=True)
    options = ("--standalone", "1", "--console", form)
    job = bad_day(*options, *python(FLOOD), stdout=write_end, deadline=60)
    os.close(write_end)
    reader.start()
    assert job.end() == 0
    reader.join(DEADLINE_SECONDS)
    assert counts["said"] == FLOODED
    assert counts["dropped"] == 0


def count_lines(read_end: int, counts: Counter[str]) -> None:
    rest = b""
    with os.fdopen(read_end, "rb", buffering=0) as stdout:
        while piece := stdout.read(1 << 20):
            lines, newline, rest = (rest + piece).rpartition(b"\n")
            counts["said"] += (lines + newline).count(b"loss 0.5\n")
            counts["said"] += (lines + newline).count(b'"loss 0.5"}\n')
            counts["dropped"] += lines.count(b"only in the log of rank 0")
