"""The events of supervisors in Chrome's trace event format; pure.

Times are microseconds since the epoch, as in the traces of profilers. Nothing in an event is
trusted: what is not as expected is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct, field

ToldEvent = Mapping[str, Any]
"""An event as it is in the event log."""
Shape = dict[str, Any]
"""One entry of the trace."""

SUPERVISOR, TRAINING, FIRST_PROGRAM, FIRST_RANK = 0, 1, 2, 1000
"""Tracks of a server: the supervisor, its steps, processes that are no ranks, the ranks."""
MOST_RANK = 10_000_000
_WAITS = {
    "rank_table.waiting": "wait for the rank table",
    "cluster.waiting": "wait for the cluster",
    "peers.waiting": "wait for other servers",
    "etcd.waiting": "wait for etcd",
    "release.waiting": "wait for the devices",
    "port.waiting": "wait for the port",
}
_BEGINS = {
    "supervisor.started": "start",
    "generation.ended": "after the generation",
    "restart.scheduled": "restart delay",
}
ENDING = "end of the generation"
_REASONS = frozenset({"cluster.incident", "hang.noticed", "signal.received"})
_STEPS_OF_A_STOP = {"SIGTERM": "drain", "SIGKILL": "grace", "None": "after SIGKILL"}
_MARKS = frozenset(
    {
        *("checkpoint.saved", "training.stalled", "training.resumed", "supervisor.exited"),
        *("rank_table.unchanged", "restarts.barred", "grace.ended", *_REASONS),
    }
)


def trace(events: Iterable[ToldEvent]) -> Iterator[Shape]:
    """The trace of all events: one process for each host, one track for each rank.

    Those of one host are in their order; hosts may come one after another, or mixed.
    """
    servers: dict[str, _Server] = {}
    for event in events:
        moment, host = _moment(event), event.get("host")
        if moment is not None and isinstance(host, str):
            server = servers.get(host)
            if server is None:
                server = servers[host] = _Server(len(servers) + 1, host)
            yield from server.take(event, event["event"], moment)
    for server in servers.values():
        yield from server.close(server.last)


class _Open(Struct):
    """Something that has begun: in a track, since when, and what is told of it."""

    name: str
    track: int
    begin: int
    told: Shape = field(default_factory=dict)


class _Server(Struct):
    """What is open on one host, until ``last``."""

    number: int
    host: str
    last: int = 0
    _named: set[int] = field(default_factory=set)
    _phase: _Open | None = None
    _stop: _Open | None = None
    _processes: dict[int, _Open] = field(default_factory=dict)
    _programs: dict[str, int] = field(default_factory=dict)
    _step: tuple[int, int] | None = None

    def take(self, event: ToldEvent, name: str, moment: int) -> Iterator[Shape]:
        before, self.last = self.last, max(self.last, moment)
        if name == "supervisor.started":  # the one before it may have been killed long ago
            yield from self.close(before)
        elif name in {"supervisor.exited", "generation.ended"}:
            yield from self.close(moment)
        yield from self._supervisor(event, name, moment)
        if name == "process.started":
            yield from self._process_started(event, moment)
        elif name == "process.exited":
            yield from self._process_exited(event, moment)
        elif name in {"training.started", "training.progress"}:
            yield from self._trained(event, name, moment)
        if name in _MARKS:
            track = SUPERVISOR if "training" not in name and "checkpoint" not in name else TRAINING
            told = {"msg": event.get("msg")}
            yield self._shape("i", name, track, moment, s="t", args=told)

    def close(self, moment: int) -> Iterator[Shape]:
        """End everything that is open."""
        for one in (self._phase, self._stop, *self._processes.values()):
            if one is not None:
                yield self._whole(one, moment)
        self._phase = self._stop = self._step = None
        self._processes.clear()

    def _supervisor(self, event: ToldEvent, name: str, moment: int) -> Iterator[Shape]:
        """The phases of the supervisor, one after the other, and the steps of a stop in them."""
        if name == "grace.ended":
            yield from self._stopping("grace", moment - _micros(event.get("grace_seconds")))
            yield from self._stopping("after SIGKILL", moment)
        elif name == "stop.waiting":
            step = _STEPS_OF_A_STOP.get(str(event.get("then")), "stop")
            yield from self._stopping(step, moment - _micros(event.get("waited_seconds")))
        elif name in _WAITS:
            yield from self._turn(_WAITS[name], moment - _micros(event.get("waited_seconds")))
        elif name in _BEGINS:
            yield from self._turn(_BEGINS[name], moment)
        elif name == "generation.started":
            yield from self._turn(f"generation {event.get('generation')}", moment)
        elif self._runs and (name in _REASONS or event.get("first_failure") is True):
            yield from self._turn(ENDING, moment, {"why": event.get("msg")})

    @property
    def _runs(self) -> bool:
        """Whether a generation runs, and nothing has ended it yet."""
        return self._phase is not None and self._phase.name.startswith("generation ")

    def _turn(self, name: str, moment: int, told: Shape | None = None) -> Iterator[Shape]:
        """Another phase begins, unless it is the same."""
        yield from self._track(SUPERVISOR, "supervisor")
        if self._phase is not None:
            if self._phase.name == name:
                return
            moment = max(moment, self._phase.begin)
            yield self._whole(self._phase, moment)
        self._phase = _Open(name, SUPERVISOR, moment, told or {})

    def _stopping(self, name: str, moment: int) -> Iterator[Shape]:
        """The same of a step of a stop, which is within a phase."""
        before = self._stop or self._phase
        moment = moment if before is None else max(moment, before.begin)
        if self._stop is not None:
            if self._stop.name == name:
                return
            yield self._whole(self._stop, moment)
        self._stop = _Open(name, SUPERVISOR, moment)

    def _process_started(self, event: ToldEvent, moment: int) -> Iterator[Shape]:
        rank, pid = event.get("rank"), event.get("child_pid")
        if type(pid) is not int:
            return
        if type(rank) is int and 0 <= rank < MOST_RANK:
            track, name = FIRST_RANK + rank, f"rank {rank}"
        else:
            name = str(event.get("program"))
            track = self._programs.setdefault(name, FIRST_PROGRAM + len(self._programs))
        yield from self._track(track, name)
        told = {key: event.get(key) for key in ("child_pid", "local_rank", "log", "warm")}
        self._processes[pid] = _Open(f"generation {event.get('generation')}", track, moment, told)

    def _process_exited(self, event: ToldEvent, moment: int) -> Iterator[Shape]:
        pid = event.get("child_pid")
        process = self._processes.pop(pid, None) if type(pid) is int else None
        if process is not None:
            process.told |= {key: event.get(key) for key in ("status", "signal", "first_failure")}
            shape = self._whole(process, moment)
            yield shape | {"cname": "terrible"} if event.get("first_failure") is True else shape

    def _trained(self, event: ToldEvent, name: str, moment: int) -> Iterator[Shape]:
        """From one event to the next; how far it was is a curve, too."""
        step = event.get("step")
        if type(step) is not int:
            return
        yield from self._track(TRAINING, "training")
        if name == "training.started":
            begin = moment - _micros(event.get("start_seconds"))
            yield self._whole(_Open("start", TRAINING, begin), moment)
        elif self._step is not None:
            before, since = self._step
            told = {key: event.get(key) for key in ("seconds_per_step", "percent", "epoch")}
            steps = _Open(f"steps {before} to {step}", TRAINING, since, told)
            yield self._whole(steps, moment)
        self._step = step, moment
        yield self._shape("C", "step", TRAINING, moment, args={"step": step})

    def _track(self, track: int, name: str) -> Iterator[Shape]:
        """Its name, once."""
        if not self._named:
            yield self._shape("M", "process_name", SUPERVISOR, 0, args={"name": self.host})
        if track not in self._named:
            self._named.add(track)
            yield self._shape("M", "thread_name", track, 0, args={"name": name})
            yield self._shape("M", "thread_sort_index", track, 0, args={"sort_index": track})

    def _whole(self, one: _Open, end: int) -> Shape:
        duration = max(end - one.begin, 0)
        return self._shape("X", one.name, one.track, one.begin, dur=duration, args=one.told)

    def _shape(self, kind: str, name: str, track: int, moment: int, **more: Any) -> Shape:
        return {"ph": kind, "name": name, "pid": self.number, "tid": track, "ts": moment, **more}


def _moment(event: ToldEvent) -> int | None:
    """When it was, in microseconds since the epoch."""
    ts = event.get("ts")
    if not isinstance(ts, str) or not isinstance(event.get("event"), str):
        return None
    try:
        return round(datetime.fromisoformat(ts.replace("Z", "+00:00")).timestamp() * 1e6)
    except (ValueError, OverflowError):
        return None


def _micros(seconds: object) -> int:
    is_number = isinstance(seconds, int | float) and 0 <= seconds < MOST_RANK
    return round(seconds * 1e6) if is_number else 0  # type: ignore[operator]
