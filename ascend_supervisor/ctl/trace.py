"""The events of supervisors in Chrome's trace event format; pure.

Times are microseconds since the epoch, as in the traces of profilers. Nothing in an event is
trusted: what is not as expected is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ascend_supervisor.report.timeline import (
    SUPERVISOR,
    TRAINING,
    Happening,
    Observed,
    StepAt,
    Stretch,
    Track,
    timeline,
)
from ascend_supervisor.report.told import ToldEvent

Shape = dict[str, Any]
"""One entry of the trace."""


def trace(events: Iterable[ToldEvent]) -> Iterator[Shape]:
    """The trace of all events: one process for each host, one track for each rank.

    Those of one host are in their order; hosts may come one after another, or mixed.
    """
    hosts: dict[str, int] = {}
    named: set[tuple[int, int]] = set()
    for host, seen in timeline(events):
        if _is_nothing(seen):
            continue
        process = hosts.get(host)
        if process is None:
            process = hosts[host] = len(hosts) + 1
            yield _shape("M", "process_name", process, SUPERVISOR, 0, args={"name": host})
        track = TRAINING if isinstance(seen, StepAt) else seen.track
        if (process, track.number) not in named:
            named.add((process, track.number))
            order = {"sort_index": track.number}
            yield _shape("M", "thread_name", process, track, 0, args={"name": track.name})
            yield _shape("M", "thread_sort_index", process, track, 0, args=order)
        yield _drawn(process, seen)


def _is_nothing(seen: Observed) -> bool:
    """A phase of no length: some viewers draw it to the end, because the next begins with it."""
    return isinstance(seen, Stretch) and seen.track == SUPERVISOR and seen.begin == seen.end


def _drawn(process: int, seen: Observed) -> Shape:
    match seen:
        case Stretch(name, track, begin, end, told):
            colour = {"cname": "terrible"} if told.get("first_failure") is True else {}
            long = {"dur": end - begin, "args": told, **colour}
            return _shape("X", name, process, track, begin, **long)
        case Happening(track, at, event):
            told = {"msg": event.get("msg")}
            return _shape("i", event["event"], process, track, at, s="t", args=told)
        case StepAt(at, step):
            return _shape("C", "step", process, TRAINING, at, args={"step": step})


def _shape(kind: str, name: str, process: int, track: Track, at: int, **more: Any) -> Shape:
    return {"ph": kind, "name": name, "pid": process, "tid": track.number, "ts": at, **more}
