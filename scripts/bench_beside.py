"""What standbys that make their imports take from ranks that compute: scripts/bench beside.

There are as many ranks as CPUs, and nothing else for them to do. Every other second the standby is
stopped: steps of the seconds with it are compared with those of the seconds before and after.
"""

from __future__ import annotations

import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from bench_progress import mean_ratio

FRAMEWORK = Path(__file__).with_name("demo_framework.py")
CPUS = len(os.sched_getaffinity(0))
WINDOWS = 31
"""The first and the last without a standby."""
SECONDS = 1.0
MARGIN = 0.05
LARGE_IN_STANDBYS = """
import pathlib
if b"warm_rank.py" in pathlib.Path("/proc/self/cmdline").read_bytes():
    import large
"""
"""Ranks start at once; the imports of the standby take longer than all windows."""
TRAIN = """
import framework
import os, sys, time
steps = open(sys.argv[1] + os.environ["RANK"], "w", 1)
print(" iteration        1/  100000 | elapsed time per iteration (ms): 20.0 |", flush=True)
while True:
    total = 0
    for number in range(100_000):
        total += number * number % 7
    print(time.monotonic(), file=steps)
"""


def print_beside(runs: int) -> None:
    """The mean ratio, with its standard error, of so many runs."""
    ratios = [ratio for _ in range(runs) for ratio in measured()]
    mean, error = mean_ratio(ratios)
    print(f"{'steps beside a warming standby':32} {mean:7.4f} {error:7.4f}   {len(ratios)} seconds")


def measured() -> list[float]:
    """The ratios of one run, of each rank and each second with a standby."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        (packages := root / "site-packages").mkdir()
        (packages / "framework.py").write_text(LARGE_IN_STANDBYS)
        source = FRAMEWORK.read_text().replace("range(500)", "range(100_000)")
        (packages / "large.py").write_text(source)
        (root / "train.py").write_text(TRAIN)
        job = subprocess.Popen(
            [
                *(sys.executable, "-m", "ascend_supervisor", "--standalone", str(CPUS)),
                *("--restarts", "1", "--warm", "--", sys.executable, "train.py", f"{root}/steps"),
            ],
            env={"PATH": os.environ["PATH"], "MA_MOUNT_PATH": name, "PYTHONPATH": str(packages)},
            cwd=root,
            stdout=subprocess.DEVNULL,
        )
        try:
            windows = list(in_turn(job.pid))
        finally:
            job.send_signal(signal.SIGTERM)
            job.wait()
        diaries = [path.read_text() for path in root.glob("steps*")]
    return [ratio for diary in diaries for ratio in ratios_of(diary, windows)]


def in_turn(supervisor: int) -> Iterator[tuple[float, float]]:
    """Windows of SECONDS: first without a standby, then with one, and so on."""
    while not (standby := standby_of(supervisor)):
        time.sleep(0.05)
    time.sleep(SECONDS)
    for number in range(WINDOWS):
        os.kill(standby, signal.SIGCONT if number % 2 else signal.SIGSTOP)
        began = time.monotonic()
        time.sleep(SECONDS)
        yield began + MARGIN, time.monotonic()
    os.kill(standby, signal.SIGCONT)


def standby_of(supervisor: int) -> int | None:
    """The process of the one that makes its imports."""
    children = Path(f"/proc/{supervisor}/task/{supervisor}/children")
    with suppress(OSError):
        for child in children.read_text().split():
            if b"warm_rank.py" in Path(f"/proc/{child}/cmdline").read_bytes():
                return int(child)
    return None


def ratios_of(diary: str, windows: list[tuple[float, float]]) -> Iterator[float]:
    """Of the seconds for a step with a standby, to those in the windows around it."""
    ends = [float(line) for line in diary.splitlines()[:-1]]
    means = []
    for begin, end in windows:
        steps = [b - a for a, b in pairwise(ends) if begin <= a and b <= end]
        means.append(statistics.fmean(steps))
    for number in range(1, len(means) - 1, 2):
        yield means[number] / math.sqrt(means[number - 1] * means[number + 1])
