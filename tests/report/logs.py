"""Event logs of jobs, as supervisors write them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

BEGIN = 1_800_000_000


def event(name: str, at: float, **keys: Any) -> dict[str, Any]:
    """An event so many seconds after BEGIN."""
    ts = datetime.fromtimestamp(BEGIN + at, timezone.utc).isoformat(timespec="microseconds")
    return {"ts": ts.replace("+00:00", "Z"), "host": "pod-0", "event": name, "msg": name, **keys}


def started(rank: int | None, at: float, generation: int = 0, **keys: Any) -> dict[str, Any]:
    told = {"rank": rank, "child_pid": 100 * generation + (rank or 0) + 1, **keys}
    return event("process.started", at, generation=generation, **told)


def exited(rank: int, at: float, *, first: bool = False, **keys: Any) -> dict[str, Any]:
    told = {"child_pid": rank + 1, "rank": rank, "status": 1, "first_failure": first, **keys}
    return event("process.exited", at, **told)


def written(path: Path, events: Iterable[Mapping[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(one)}\n" for one in events))
    return path


def on(host: str, events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{**one, "host": host} for one in events]


def by(job_id: str, pid: int, events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """As one start of a supervisor writes them."""
    return [{**one, "job_id": job_id, "pid": pid} for one in events]


FIRST_CAUSE = "rank 1 failed first, in generation 0: it exited with status 1 after 29.0 s"
NAN = "RuntimeError: loss is nan"
HANGS = "no rank on this server has written anything for 20 s (--hang-timeout)"
LOSING = [
    event(
        "supervisor.started",
        0,
        job_id="llama-7",
        version="0.1.0",
        command=["python", "train.py"],
        method="ranktable",
        cluster="rank_table",
        restarts=1,
        settings=["restarts=1 (command line)", "hang-timeout=20.0 (command line)"],
    ),
    event("rank_table.waiting", 1, waited_seconds=1.0),
    event("rank_table.ready", 4, world_size=4),
    event("generation.started", 10, generation=0),
    *(started(rank, 11, log=f"/log/rank-{rank}.txt") for rank in range(4)),
    event("training.started", 20, step=1, start_seconds=9.0),
    event("training.progress", 30, step=11, steps=100),
    event("checkpoint.saved", 31, step=10),
    exited(1, 40, first=True, msg="rank 1 exited with status 1 after 29.0 s"),
    *(exited(rank, 44) for rank in (0, 2, 3)),
    event("generation.ended", 45, generation=0, outcome="crashed", next="restart", steps_lost=1),
    event(
        "restart.scheduled",
        45.5,
        cause=f"{FIRST_CAUSE}: {NAN}",
        restarts_left=0,
        root_cause=f"{FIRST_CAUSE}: {NAN}\nthe last lines of /log/rank-1.txt:\n  step 11\n  {NAN}",
    ),
    event("generation.started", 50, generation=1),
    *(started(rank, 50, 1, log=f"/log/rank-{rank}.txt") for rank in range(4)),
    event("training.started", 60, step=7, start_seconds=10.0),
    event("training.progress", 70, step=17, steps=100),
    event(
        "hang.noticed",
        95,
        ranks=[2, 0],
        last_lines=["reading shard 17", "step 21"],
        limit_seconds=20.0,
        silent_seconds=24.0,
        msg=f"generation 1 hangs: {HANGS}",
    ),
    event(
        "stacks.taken", 96, summary="rank 2 is in next_batch (data.py:41)", directory="/log/hang"
    ),
    event("stop.waiting", 101, then="SIGKILL", waited_seconds=5.0),
    event("grace.ended", 106, grace_seconds=10.0),
    event("generation.ended", 107, generation=1, outcome="fault", next="stop", cause=HANGS),
    event(
        "supervisor.exited",
        108,
        exit_code=124,
        reason=f"{HANGS}; the restart budget of 1 is used up",
        root_cause=HANGS,
        account={"waiting": 10.0, "start": 20.0, "training": 50.0, "stalled": 28.0},
        trained="trained 46.3 % of 1 min 48 s",
    ),
]
"""A rank fails, all restart, and hang until the job ends."""
DONE = [
    *LOSING[:3],
    event("generation.started", 10, generation=0),
    started(0, 11),
    exited(0, 50, status=0),
    event("generation.ended", 50, generation=0, outcome="completed", next="stop"),
    event("supervisor.exited", 51, exit_code=0, reason="every rank ended with 0"),
]
