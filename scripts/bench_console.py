"""The JSON console beside tee on the same work in memory: scripts/bench console.

One process writes lines of 100 bytes; each of the two keeps them in a file in memory and passes
them on to a reader that counts them. Ours makes JSON of them on the way.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

LINE_BYTES = 100
FLOOD = (
    "import os, sys; line = b'x' * 99 + b'\\n'; block = line * 655; left = int(sys.argv[1])\n"
    "while left > 0: left -= os.write(1, block[:left])"
)
MEMORY = Path("/dev/shm")


def flood(size: int) -> list[str]:
    """The words of a process that writes so many bytes."""
    return [sys.executable, "-S", "-c", FLOOD, str(size)]


def seconds_and_lines(begin: Callable[[int], subprocess.Popen[bytes]]) -> tuple[float, int]:
    """How long what ``begin`` starts with this stdout takes, and how many lines come."""
    read_end, write_end = os.pipe()
    counter = subprocess.Popen(["wc", "-l"], stdin=read_end, stdout=subprocess.PIPE)
    os.close(read_end)
    began = time.monotonic()
    process = begin(write_end)
    os.close(write_end)
    process.wait()
    lines = int(counter.communicate()[0])
    return time.monotonic() - began, lines


def of_tee(root: Path, size: int) -> tuple[float, int]:
    def begin(stdout: int) -> subprocess.Popen[bytes]:
        rank = subprocess.Popen(flood(size), stdout=subprocess.PIPE)
        return subprocess.Popen(["tee", str(root / "log")], stdin=rank.stdout, stdout=stdout)

    return seconds_and_lines(begin)


def of_ours(root: Path, size: int) -> tuple[float, int]:
    """Without the seconds of a start and an end, and the lines of the rank only."""
    options = ["--standalone", "1", "--console", "json", "--log-max-size", "1TiB"]

    def begin(stdout: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "ascend_supervisor", *options, "--", *words],
            env={"PATH": os.environ["PATH"], "MA_MOUNT_PATH": str(root), "MA_VJ_NAME": "bench"},
            cwd=root,
            stdout=stdout,
        )

    (root / "log").mkdir()
    words = flood(0)
    idle, events = seconds_and_lines(begin)
    words = flood(size)
    busy, lines = seconds_and_lines(begin)
    return busy - idle, lines - events


def print_console(runs: int, size: int) -> None:
    """Pairs, taken in turn: the ratio, megabytes a second of each, and lines that are missing."""
    print(f"{'JSON console beside tee':30} {'ratio':>7} {'ours':>7} {'tee':>7} {'missing':>8}")
    ratios = []
    for run in range(runs):
        with (
            tempfile.TemporaryDirectory(dir=MEMORY) as one,
            tempfile.TemporaryDirectory(dir=MEMORY) as other,
        ):
            tee, _ = of_tee(Path(one), size)
            ours, lines = of_ours(Path(other), size)
        ratios.append(tee / ours)
        speeds = f"{size / 1e6 / ours:7.0f} {size / 1e6 / tee:7.0f}"
        missing = size // LINE_BYTES - lines
        print(f"{f'run {run + 1}':30} {tee / ours:7.2f} {speeds} {missing:8}", flush=True)
    print(f"{'median':30} {statistics.median(ratios):7.2f}")
