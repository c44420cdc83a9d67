"""Which lines of a rank its training has survived: it went on after them; pure."""

from __future__ import annotations

from collections.abc import Sequence

from ascend_supervisor.evidence.speakers import Line
from ascend_supervisor.progress.reader import Reader

LAST_LINES = 200
"""Of an output: steps before them are not looked for."""


def since_training(lines: Sequence[Line]) -> Sequence[Line]:
    """The lines since the last step but one: what stood before has not ended this rank.

    One step is not enough: it may be printed while another thread already ends the rank.
    """
    begin = max(0, len(lines) - LAST_LINES)
    reader, steps = Reader(), list[tuple[str, int, int]]()
    for at, line in enumerate(lines[begin:], begin):
        for reading in reader.read(f"{line.text}\n".encode(errors="replace"), 0.0):
            if reading.step is not None:
                steps.append((reading.format, reading.step, at))
    if not steps:
        return lines
    name, last, _ = steps[-1]
    before = [at for format_, step, at in steps if format_ == name and step < last]
    return lines[before[-1] :] if before else lines
