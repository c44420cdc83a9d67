"""How long ``logs --grep`` takes over rotated logs, beside GNU grep over the same files."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RANKS, FILES = 8, 4
PATTERNS = ("out of memory", "iteration +[0-9]*77/ ", "(?i)Out Of Memory|timed out")
LINE = "2026-11-26 10:{:02}:{:02}.{:03} iteration {:8}/ 1000000 | lm loss: 1.{:06} | tokens: {}\n"


def print_search(runs: int, size: int) -> None:
    """Ratios of the times, taken in turn after one run of each that fills the cache."""
    with tempfile.TemporaryDirectory() as root:
        state, files = _logs(Path(root), size // RANKS // FILES)
        print(f"{sum(file.stat().st_size for file in files) / 1e9:.1f} GB in {len(files)} files")
        for pattern in PATTERNS:
            bare = pattern.removeprefix("(?i)")
            case = [] if bare == pattern else ["-i"]
            beside = ["grep", "-E", "-h", *case, "-e", bare, *map(str, files)]
            ours = [sys.executable, "-m", "ascend_supervisor.ctl", "logs", "--grep", pattern]
            pairs = [
                (_seconds([*ours, "--state-file", state]), _seconds(beside))
                for _ in range(runs + 1)
            ]
            ratios = [mine / other for mine, other in pairs[1:]]
            mine, other = (statistics.median(times) for times in zip(*pairs[1:], strict=True))
            print(
                f"{pattern!r}: {mine:.2f} s, grep -E {other:.2f} s; ratio "
                f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
            )


def _logs(root: Path, size: int) -> tuple[str, list[Path]]:
    """A state file, and the logs that it names with what was rotated from them."""
    lines = [
        LINE.format(n // 60000 % 60, n // 1000 % 60, n % 1000, n, n % 999983, n * 4096)
        for n in range(100_000)
    ]
    lines[50_000] += "RuntimeError: NPU out of memory\n"
    block = "".join(lines).encode()
    files = []
    ranks = []
    for rank in range(RANKS):
        log = root / f"rank-{rank}.txt"
        ranks.append({"rank": rank, "local_rank": rank, "pid": os.getpid(), "log": str(log)})
        for name in (log, *(Path(f"{log}.{number}") for number in range(1, FILES))):
            with name.open("wb") as file:
                for _ in range(max(size // len(block), 1)):
                    file.write(block)
            files.append(name)
    state = {"job_id": "bench", "pod": "pod-0", "pid": os.getpid(), "start_time": None}
    state |= {"version": "0", "phase": "ended", "why": "", "generation": 0, "restarts_left": 0}
    state |= {"world_size": RANKS, "ranks": ranks, "exit_code": 0, "root_cause": None}
    for one in ranks:
        one |= {"status": 0, "signal": None}
    path = root / "state.json"
    path.write_text(json.dumps(state))
    return str(path), files


def _seconds(command: list[str]) -> float:
    began = time.perf_counter()
    environ = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
    # Into a pipe: where nobody would see the second match, grep does not look for it.
    done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, check=False)
    if done.returncode not in {0, 1}:
        raise SystemExit(f"{command} ended with {done.returncode}")
    return time.perf_counter() - began
