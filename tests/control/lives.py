"""Generations without processes, as a test wants them."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from ascend_supervisor.cluster.made_table import standalone_table
from ascend_supervisor.life import Life, Living, Plan, Start
from ascend_supervisor.output.last_lines import Activity
from ascend_supervisor.process_spec import ProcessSpec, WorkerLog


def spec(rank: int | None, **more: Any) -> ProcessSpec:
    log = PurePath(f"/log/{rank}")
    return ProcessSpec(("train",), PurePath("/"), log, rank=rank, local_rank=rank, **more)


def living(rank: int, spoke_at: float = 0.0, tail: bytes = b"", **more: Any) -> Living:
    """Process 100 + rank, which has written ``tail``."""
    activity = Activity(spoke_at, len(tail), tail=bytearray(tail), **more)
    return Living(spec(rank), 100 + rank, activity)


def launcher(*ranks: int, seen: dict[int, int], logs: bool) -> Living:
    """Process 90, ``msrun``, with these ranks; ``seen`` are their pids."""
    own = tuple(WorkerLog(PurePath(f"/log/{rank}"), rank, rank - ranks[0]) for rank in ranks)
    words = spec(None, workers=len(ranks), worker_logs=own if logs else (), title="msrun")
    activities = tuple(Activity(0.0) for _ in ranks) if logs else ()
    return Living(words, 90, Activity(0.0, 50), activities, seen)


def life(*processes: Living, generation: int = 0, planned: int | None = None) -> Life:
    """A generation with these processes, of a job of two ranks."""
    found = standalone_table(2)
    specs = tuple(one.spec for one in processes)
    specs += tuple(spec(rank) for rank in range(len(specs), planned or 0))
    start = Start(generation, found, 0, found.table.entries[0], 0)
    return Life(Plan(start, specs), list(processes))
