"""What reading steps costs the pump, --progress auto over off: scripts/bench progress.

Ranks write as fast as they can; all goes to files in memory, and a reader counts what comes to the
console. The two of a pair run in turn: side by side each takes CPU from the other, by chance.
"""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MEMORY = Path("/dev/shm")
START_SECONDS = 4.0
SECONDS = 2.5
FLOOD = """
import os, sys, time
kind, start, end, path = sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
line = (" [2026-01-01 10:00:00] iteration @@@@@%03d/99999999 | consumed samples: 16 | elapsed time "
        "per iteration (ms): 2010.5 | learning rate: 1.0E-04 | global batch size: 16 | "
        "lm loss: 2.382640E+00 | grad norm: 0.731 |\\n")
bar = "\\r 14%%|#4        | @@@@@%03d/99999999 [00:07<00:47,  7.57it/s]"
steps = "".join(line % n + bar % n for n in range(500)).encode()
noise = (b"x" * 99 + b"\\n") * (len(steps) // 100)
written, number = 0, 10000
time.sleep(start - time.monotonic())
while time.monotonic() < end:
    block = noise if kind == "noise" else steps.replace(b"@@@@@", b"%5d" % number)
    number, view = number + 1, memoryview(block)
    while view:
        view = view[os.write(1, view[:65536]):]
    written += len(block)
with open(path + os.environ["RANK"], "w") as file:
    print(written, file=file)
"""
"""Of the steps, each record has a step of its own: a line of Megatron-LM or a bar of tqdm."""


def speed(progress: str, kind: str, console: str, ranks: int) -> float:
    """Megabytes a second through the pumps, or thousands of lines a second on the JSON console."""
    start = time.monotonic() + START_SECONDS
    with tempfile.TemporaryDirectory(dir=MEMORY) as root:
        (log := Path(root, "log")).mkdir()
        (written := Path(root, "written")).mkdir()
        words = ("--standalone", str(ranks), "--console", console, "--log-keep", "0")
        flood = (FLOOD, kind, str(start), str(start + SECONDS), f"{written}/")
        read_end, write_end = os.pipe()
        counter = subprocess.Popen(["wc", "-l"], stdin=read_end, stdout=subprocess.PIPE)
        os.close(read_end)
        subprocess.run(
            [
                *(sys.executable, "-m", "ascend_supervisor", *words, "--progress", progress),
                *("--", sys.executable, "-S", "-c", *flood),
            ],
            env={"PATH": os.environ["PATH"], "MA_MOUNT_PATH": root, "MA_VJ_NAME": "bench"},
            cwd=log,
            stdout=write_end,
            check=True,
        )
        os.close(write_end)
        lines = int(counter.communicate()[0])
        size = sum(int(one.read_text()) for one in written.iterdir())
    return (lines / 1e3 if console == "json" else size / 1e6) / SECONDS


def pair(kind: str, console: str, ranks: int, order: tuple[str, str]) -> tuple[float, float]:
    """The speeds with auto and with off, measured one after the other."""
    speeds = {progress: speed(progress, kind, console, ranks) for progress in order}
    return speeds["auto"], speeds["off"]


def mean_ratio(ratios: list[float]) -> tuple[float, float]:
    """The geometric mean, and its standard error."""
    logarithms = [math.log(ratio) for ratio in ratios]
    mean = math.exp(statistics.fmean(logarithms))
    if len(ratios) == 1:
        return mean, math.nan
    return mean, mean * statistics.stdev(logarithms) / math.sqrt(len(ratios))


def print_progress(runs: int) -> None:
    """The ratios of the pairs, auto over off; each is started first in every other pair."""
    print(f"{'--progress auto over off':24} {'mean':>7} {'error':>7} {'lowest':>7} {'highest':>7}")
    for console in ("json", "none"):
        for ranks in (8, 1):
            for kind in ("noise", "steps"):
                orders = [("auto", "off"), ("off", "auto")] * runs
                pairs = [pair(kind, console, ranks, order) for order in orders[:runs]]
                print_row(console, ranks, kind, pairs)


def print_row(console: str, ranks: int, kind: str, pairs: list[tuple[float, float]]) -> None:
    ratios = [auto / off for auto, off in pairs]
    row = (*mean_ratio(ratios), min(ratios), max(ratios))
    unit = "k lines/s" if console == "json" else "MB/s"
    label = f"{'JSON' if console == 'json' else 'raw'}, {ranks} rank{'s' * (ranks > 1)}, {kind}"
    figures = " ".join(f"{figure:7.3f}" for figure in row)
    off = statistics.median(off for _, off in pairs)
    print(f"{label:24} {figures}   off: {off:.0f} {unit}", flush=True)
