"""From a death, and from the start, to the next step: cold, warm and under torchrun.

Four ranks on the CPU; rank 1 kills itself once all standbys are ready. The ranks write the times.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

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
TORCHRUN = (
    *(PYTHON, "-m", "torch.distributed.run", f"--nproc-per-node={RANKS}"),
    *("--standalone", "--max-restarts=1", "--monitor-interval=0.1"),
)
WAYS = "cold", "warm", "torchrun"
ENVIRON = {"OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
"""Else the second life under torchrun (2.13) mostly ends: its store has the old addresses."""
NONE: Mapping[str, str] = MappingProxyType({})
JOBS = {"Trainer": "bench_trainer.py", "DDP": "bench_ddp.py"}


def print_steps(runs: int) -> None:
    """Medians of so many runs in turn, and what they are of cold."""
    heads = f"{'start':>7} {'death':>7} {'of cold':>8} lowest highest"
    print(f"{'seconds to the next step':28} {heads}")
    for job, script in JOBS.items():
        seen: dict[str, list[tuple[float, float]]] = {name: [] for name in WAYS}
        for _ in range(runs):
            for name in WAYS:
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


class Run(NamedTuple):
    """Moments (CLOCK_MONOTONIC): ``times`` of the diary, ``started`` when rank 0 did so again."""

    began: float
    times: Mapping[str, float]
    started: float


def measured(name: str, script: str) -> tuple[float, float]:
    """Seconds from the start, and from the death, to the next step."""
    with tempfile.TemporaryDirectory() as root:
        done = run(name, script, root)
    return done.times[BEFORE] - done.began, done.times[AFTER] - done.times[DEATH]


def run(
    way: str,
    script: str,
    root: str,
    environ: Mapping[str, str] = NONE,
    options: tuple[str, ...] = (),
    *,
    is_useful: bool = True,
) -> Run:
    """One job; ``is_useful``: its standbys, if it has any, become the ranks."""
    warm = ("--warm",) if way == "warm" else ()
    ours = (*SUPERVISOR, *options, *warm, "--", PYTHON)
    diary, log = Path(root, "diary"), Path(root, "out")
    Path(root, "log").mkdir()  # where the supervisor writes
    began = time.monotonic()
    with log.open("wb") as out:
        job = subprocess.Popen(
            [*(TORCHRUN if way == "torchrun" else ours), str(HERE / script), str(diary)],
            env={**os.environ, **ENVIRON, **environ, "MA_MOUNT_PATH": root},
            cwd=root,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        wait(job, log, lambda: BEFORE in text(diary))
        if warm:
            wait(job, log, lambda: "standbys.ready" in text(log))
        time.sleep(SETTLED_SECONDS)
        Path(f"{diary}.fatal").touch()
        wait(job, log, lambda: AFTER in text(diary))
        job.wait(SECONDS)
    finally:
        job.terminate()  # ended already, unless something went wrong
        job.wait()
    times = {what: float(at) for what, at in (one.split("|") for one in text(diary).splitlines())}
    return Run(began, times, started_again(text(log), is_warm=bool(warm) and is_useful))


def started_again(log: str, *, is_warm: bool) -> float:
    """When rank 0 did; a figure of a job that was not as cold or warm as it should be is none."""
    events = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    started = [one for one in events if one["event"] == "process.started"]
    assert [one["warm"] for one in started[RANKS:]] == [is_warm] * len(started[RANKS:]), started
    for one in started[RANKS:]:
        if one["rank"] == 0:
            moment = datetime.fromisoformat(one["ts"].replace("Z", "+00:00")).timestamp()
            return moment - time.time() + time.monotonic()
    return math.nan  # under torchrun


def wait(job: subprocess.Popen[bytes], log: Path, holds: Callable[[], bool]) -> None:
    until = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < until, text(log)
        assert job.poll() is None or holds(), text(log)
        time.sleep(0.02)


def text(path: Path) -> str:
    return path.read_text() if path.exists() else ""
