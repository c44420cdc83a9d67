"""Generations as probes see them, without processes; times are seconds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from msgspec.structs import replace

from ascend_supervisor.cluster.made_table import standalone_table
from ascend_supervisor.life import Life, Living, Notified, Plan, Start
from ascend_supervisor.output.last_lines import Activity
from ascend_supervisor.process_spec import ProcessSpec, WorkerLog


def wrote(at: float, line: bytes = b"loss 1.9\n", since: float | None = None) -> Activity:
    """The activity of what has last written ``line``, and first ``since``; else nothing before."""
    return Activity(at, len(line), tail=bytearray(line), first_at=at if since is None else since)


def rank(number: int, activity: Activity, *, has_ended: bool = False, **more: Any) -> Living:
    """A rank that is our own process."""
    activity.has_ended = has_ended
    return Living(_spec(rank=number, local_rank=number, **more), 100 + number, activity)


def scheduler(activity: Activity, *, significant: bool = False) -> Living:
    return Living(_spec(title="the scheduler", significant=significant), 99, activity)


def command(activity: Activity) -> Living:
    """As ``once`` starts it."""
    return Living(_spec(title="the command", leads_ranks=True), 100, activity)


def mpirun(activity: Activity) -> Living:
    return Living(_spec(title="mpirun", relays_ranks=True), 100, activity)


def torchrun(activity: Activity, seen: Mapping[int, int], *, workers: int = 2) -> Living:
    """A launcher whose workers share its pipe; ``seen`` are their ranks by pid."""
    return Living(_spec(title="torchrun", workers=workers), 100, activity, (), seen)


def msrun(activity: Activity, of_workers: tuple[Activity, ...], seen: Mapping[int, int]) -> Living:
    """A launcher whose workers write logs of their own."""
    logs = tuple(WorkerLog(PurePath(f"{n}.log"), n, n) for n in range(len(of_workers)))
    spec = _spec(title="msrun", workers=len(logs), worker_logs=logs)
    return Living(spec, 100, activity, of_workers, seen)


def _spec(**more) -> ProcessSpec:
    return ProcessSpec(("train",), PurePath("/w"), PurePath("/l"), **more)


def life(
    *processes: Living,
    ranks: int = 2,
    servers: int = 1,
    notified: Mapping[int, Notified] | None = None,
) -> Life:
    """``ranks`` are those of this server, the first of so many ``servers``."""
    found = standalone_table(ranks * servers)
    entry = found.table.entries[0]
    plan = Plan(Start(0, found, 0, replace(entry, devices=entry.devices[:ranks]), 0), ())
    return Life(plan, list(processes), dict(notified or {}))
