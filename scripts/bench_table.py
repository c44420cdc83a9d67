"""From a rank table that is completed late to the first step, cold and warm: rows of bench steps.

The table names RANKS devices of this machine, whose files are in a /dev of the job's own (root).
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench_diary import BEFORE

RANKS = 4
TABLE_SECONDS, SECONDS = 10.0, 300.0
DEVICES = """
cd "$1"
for device in $(seq 0 $(($2 - 1))); do touch "davinci$device"; done
mkdir shm
touch null urandom davinci_manager
for shared in null urandom shm; do mount --bind "/dev/$shared" "$shared"; done
mount --rbind . /dev
shift 2
exec "$@"
"""
TABLE = {
    "version": "1.0",
    "status": "completed",
    "server_count": "1",
    "server_list": [
        {
            "server_id": "127.0.0.1",
            "device": [
                {"device_id": f"{rank}", "device_ip": f"10.0.0.{rank + 1}", "rank_id": f"{rank}"}
                for rank in range(RANKS)
            ],
        }
    ],
}


def print_table(job: str, script: Path, runs: int) -> None:
    """Medians of so many runs in turn, and what warm is of cold."""
    seen: dict[str, list[float]] = {"cold": [], "warm": []}
    for _ in range(runs):
        for name, times in seen.items():
            times.append(measured(script, ["--warm"] * (name == "warm")))
    cold = statistics.median(seen["cold"])
    for name, times in seen.items():
        start = statistics.median(times)
        print(
            f"{f'{job}, table, {name}':28} {start:7.2f} {'':7} {start / cold:8.2f} "
            f"{min(times):6.2f} {max(times):7.2f}",
            flush=True,
        )


def measured(script: Path, options: list[str]) -> float:
    """Seconds from the completion of the table to the first step."""
    with tempfile.TemporaryDirectory() as root:
        (devices := Path(root, "devices")).mkdir()
        diary, table, new = Path(root, "diary"), Path(root, "table.json"), Path(root, "new.json")
        job = subprocess.Popen(
            [
                *("unshare", "--mount", "sh", "-e", "-c", DEVICES, "sh", str(devices), str(RANKS)),
                *(sys.executable, "-m", "ascend_supervisor", "--rank-table", str(table)),
                *("--restarts", "1", *options, "--", sys.executable, str(script), str(diary)),
            ],
            env={**os.environ, "OMP_NUM_THREADS": "1", "MA_MOUNT_PATH": root},
            cwd=root,
            stdout=subprocess.DEVNULL,
        )
        try:
            time.sleep(TABLE_SECONDS)
            new.write_text(json.dumps(TABLE))
            new.rename(table)
            began = time.monotonic()
            while not (diary.exists() and BEFORE in diary.read_text()):
                assert job.poll() is None, job.args
                assert time.monotonic() < began + SECONDS
                time.sleep(0.02)
            found = dict(line.split("|") for line in diary.read_text().splitlines())
            return float(found[BEFORE]) - began
        finally:
            job.terminate()
            job.wait()
