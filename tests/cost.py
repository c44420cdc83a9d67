"""What something costs in seconds of CPU, whatever the machine has to do besides.

Two threads of one core slow each other down, and an older CPU or Python is slower: in CI by half.
So a piece of work that is always the same is measured in turn, and its known cost is the unit.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from statistics import fmean, median

_YARDSTICK_SECONDS = 0.01
"""What the work costs with Python 3.11 on the two idle cores on which the limits were set."""
_LOOKS = 5
_TEXT = [f"step {number}: loss 2.{number}, grad norm 0.{number}" for number in range(10_000)]
_NUMBER = re.compile(r"norm 0\.(\d+)$")


def cost(act: Callable[[], object], times: int = 5) -> float:
    """CPU seconds of this process, the median of several, as an idle machine would take them."""
    return median(map(_cost, [act] * times))


def _cost(act: Callable[[], object]) -> float:
    before, taken, after = _pace(), cpu_seconds(act), _pace()
    return taken / ((before + after) / 2) * _YARDSTICK_SECONDS


def _pace() -> float:
    """The pace changes within tenths of a second: one look would be half wrong."""
    return fmean(cpu_seconds(_work) for _ in range(_LOOKS))


def cpu_seconds(act: Callable[[], object]) -> float:
    """As they are: for limits that are far away."""
    began = time.process_time()
    act()
    return time.process_time() - began


def _work() -> None:
    counts: dict[str, int] = {}
    for line in _TEXT:
        found = _NUMBER.search(line)
        words = line.split(" ")
        counts[words[1]] = len(words) + (int(found[1]) if found else 0)
    sorted(counts, key=lambda word: counts[word])
