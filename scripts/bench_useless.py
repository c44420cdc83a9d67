"""What a standby costs that turns out useless: scripts/bench useless.

Pairs of the Trainer's job, from the death to the next first step: with standbys that are of no use
over none. Each is first in every other pair.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from bench_diary import AFTER, DEATH
from bench_progress import mean_ratio
from bench_steps import JOBS, run

CHANGES = "import os; os.environ['CHANGED'] = 'by an import'"
WHY = {
    "told by the environment": ("--rank-env", "ASCEND_X={generation}"),
    "told by its answer": ("--rank-env", "CHANGED={generation}"),
}
"""The supervisor sees the first itself, the second only the standby, which then starts cold."""


def print_useless(runs: int) -> None:
    print(f"{'useless standbys over none':28} {'mean':>7} {'error':>7} lowest highest  none s")
    for why, options in WHY.items():
        pairs = []
        for number in range(runs):
            order = ("cold", "warm") if number % 2 else ("warm", "cold")
            seconds = {way: measured(way, options) for way in order}
            pairs.append((seconds["warm"], seconds["cold"]))
        ratios = [useless / none for useless, none in pairs]
        mean, error = mean_ratio(ratios)
        none = statistics.median(none for _, none in pairs)
        row = f"{mean:7.3f} {error:7.3f} {min(ratios):6.2f} {max(ratios):7.2f} {none:7.2f}"
        print(f"{why:28} {row}", flush=True)


def measured(way: str, options: tuple[str, ...]) -> float:
    """Seconds from the death to the next first step; each rank starts cold."""
    with tempfile.TemporaryDirectory() as root:
        (packages := Path(root, "site-packages")).mkdir()
        (packages / "changes.py").write_text(CHANGES)
        if way == "warm":
            options = (*options, "--warm-import", "changes")
        environ = {"PYTHONPATH": str(packages)}
        done = run(way, JOBS["Trainer"], root, environ, options, is_useful=False)
    return done.times[AFTER] - done.times[DEATH]
