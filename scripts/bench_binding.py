"""What CPU binding gives ranks that compute: scripts/bench binding.

Two ranks multiply matrices in PyTorch, and at every other step both wait for each other, as a
training does. Pairs: --bind-cpus auto over none; each is first in every other pair. A rank that
nothing binds takes as many threads as the machine has CPUs, a bound one as many as it was given; in
the second row both have one thread, so that what is left is the place alone.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from bench_progress import mean_ratio

RANKS = 2
THREADS: dict[str, dict[str, str]] = {
    "threads as they choose": {},
    "one thread each": {"OMP_NUM_THREADS": "1"},
}
TRAIN = """
import os, sys, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
weight, data = torch.randn(2, 512, 512)
for step in range(-20, 600):
    if step == 0:
        began = time.monotonic()
    data = torch.tanh(data @ weight)
    if step % 2:
        dist.all_reduce(data[:1])
with open(sys.argv[1] + os.environ["RANK"], "w") as file:
    print(time.monotonic() - began, file=file)
os._exit(0)  # gloo may abort while the interpreter ends
"""
"""It is timed from the 20th step on, when all threads have been made."""


def print_binding(runs: int) -> None:
    """The mean ratios of the seconds that all steps took, with their standard errors."""
    print(f"{'--bind-cpus auto over none':28} {'mean':>7} {'error':>7} lowest highest  none s")
    for label, environ in THREADS.items():
        pairs = []
        for number in range(runs):
            order = ("auto", "none") if number % 2 else ("none", "auto")
            seconds = {how: measured(how, environ) for how in order}
            pairs.append((seconds["auto"], seconds["none"]))
        ratios = [auto / none for auto, none in pairs]
        mean, error = mean_ratio(ratios)
        none = statistics.median(none for _, none in pairs)
        row = f"{mean:7.3f} {error:7.3f} {min(ratios):6.2f} {max(ratios):7.2f} {none:7.2f}"
        print(f"{label:28} {row}", flush=True)


def measured(how: str, environ: Mapping[str, str]) -> float:
    """Seconds of the slowest rank."""
    with tempfile.TemporaryDirectory() as name:
        (script := Path(name, "train.py")).write_text(TRAIN)
        subprocess.run(
            [
                *(sys.executable, "-m", "ascend_supervisor", "--standalone", str(RANKS)),
                *("--bind-cpus", how, "--", sys.executable, str(script), f"{name}/seconds"),
            ],
            env={
                "PATH": os.environ["PATH"],
                "MA_MOUNT_PATH": name,
                "GLOO_SOCKET_IFNAME": "lo",
                **environ,
            },
            cwd=name,
            stdout=subprocess.DEVNULL,
            check=True,
        )
        return max(float(path.read_text()) for path in Path(name).glob("seconds*"))
