"""From a death, and from the start, to the next step: cold, warm and under torchrun.

Four ranks on the CPU; rank 1 kills itself once all standbys are ready. The ranks write the times.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from bench_diary import AFTER, BEFORE, DEATH
from bench_table import print_table

HERE = Path(__file__).parent
RANKS = 4
SECONDS = 300.0
SETTLED_SECONDS = 2.0
PYTHON = sys.executable
SUPERVISOR = (
    *(PYTHON, "-m", "ascend_supervisor", "--standalone", str(RANKS), "--restarts", "1"),
    *("--restart-delay", "0", "--console", "json", "--console-ranks", "none"),
)
COMMANDS: Mapping[str, Callable[[str, str], tuple[str, ...]]] = {
    "cold": lambda *job: (*SUPERVISOR, "--", PYTHON, *job),
    "warm": lambda *job: (*SUPERVISOR, "--warm", "--", PYTHON, *job),
    "torchrun": lambda *job: (
        *(PYTHON, "-m", "torch.distributed.run", f"--nproc-per-node={RANKS}"),
        *("--standalone", "--max-restarts=1", "--monitor-interval=0.1", *job),
    ),
}
OWN_STORE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
"""Else the second life under torchrun (torch 2.13) mostly ends: its store has the old addresses."""
JOBS = {"Trainer": "bench_trainer.py", "DDP": "bench_ddp.py"}


def print_steps(runs: int) -> None:
    """Medians of so many runs in turn, and what they are of cold."""
    heads = f"{'start':>7} {'death':>7} {'of cold':>8} lowest highest"
    print(f"{'seconds to the next step':28} {heads}")
    for job, script in JOBS.items():
        seen: dict[str, list[tuple[float, float]]] = {name: [] for name in COMMANDS}
        for _ in range(runs):
            for name in COMMANDS:
                seen[name].append(measured(name, script))
        cold = statistics.median(death for _, death in seen["cold"])
        for name, times in seen.items():
            start, death = (statistics.median(column) for column in zip(*times, strict=True))
            deaths = sorted(death for _, death in times)
            print(
                f"{f'{job}, {name}':28} {start:7.2f} {death:7.2f} {death / cold:8.2f} "
                f"{deaths[0]:6.2f} {deaths[-1]:7.2f}",
                flush=True,
            )
        if os.geteuid() == 0:
            print_table(job, HERE / script, runs)


def measured(name: str, script: str) -> tuple[float, float]:
    """Seconds from the start, and from the death, to the next step."""
    with tempfile.TemporaryDirectory() as root:
        diary = Path(root, "diary")
        log = Path(root, "out")
        began = time.monotonic()
        with log.open("wb") as out:
            job = subprocess.Popen(
                COMMANDS[name](str(HERE / script), str(diary)),
                env={**os.environ, **OWN_STORE, "OMP_NUM_THREADS": "1", "MA_MOUNT_PATH": root},
                cwd=root,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        wait(job, lambda: BEFORE in text(diary))
        if name == "warm":
            wait(job, lambda: "standbys.ready" in text(log))
        time.sleep(SETTLED_SECONDS)
        Path(f"{diary}.fatal").touch()
        wait(job, lambda: AFTER in text(diary))
        job.wait(SECONDS)
        found = dict(line.split("|") for line in text(diary).splitlines())
        if name == "warm":
            check_warm(text(log))
    return float(found[BEFORE]) - began, float(found[AFTER]) - float(found[DEATH])


def check_warm(log: str) -> None:
    """A figure of a job that was not warm would be none."""
    events = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    started = [one["warm"] for one in events if one["event"] == "process.started"]
    assert started == [False] * RANKS + [True] * RANKS, started


def wait(job: subprocess.Popen[bytes], holds: Callable[[], bool]) -> None:
    until = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < until
        assert job.poll() is None or holds(), job.args
        time.sleep(0.02)


def text(path: Path) -> str:
    return path.read_text() if path.exists() else ""
