"""What supervisors and their ranks did when, from their events; pure.

Times are microseconds since the epoch, as in the traces of profilers. Nothing in an event is
trusted: what is not as expected is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from msgspec import Struct, field

from ascend_supervisor.report.told import MOST_NUMBER, ToldEvent, micros, moment


class Track(NamedTuple):
    """What goes on beside other things on a server."""

    number: int
    name: str


SUPERVISOR, TRAINING = Track(0, "supervisor"), Track(1, "training")
FIRST_PROGRAM, FIRST_RANK = 2, 1000
"""The tracks of processes that are no ranks, and of rank 0."""


class Stretch(Struct, frozen=True):
    """Something that lasted, and what is told of it."""

    name: str
    track: Track
    begin: int
    end: int
    told: Mapping[str, Any]
    generation: int | None = None


class Happening(Struct, frozen=True):
    """An event that is worth to be seen; it is as it was written, and not trusted."""

    track: Track
    at: int
    event: ToldEvent


class StepAt(Struct, frozen=True):
    """How far the training was."""

    at: int
    step: int


Observed = Stretch | Happening | StepAt

RELEASE = "wait for the devices"
_WAITS = {
    "rank_table.waiting": "wait for the rank table",
    "cluster.waiting": "wait for the cluster",
    "peers.waiting": "wait for other servers",
    "etcd.waiting": "wait for etcd",
    "release.waiting": RELEASE,
    "port.waiting": "wait for the port",
}
WAITS = frozenset(_WAITS.values())
BEGINNING, PAUSE, DELAY = "start", "after the generation", "restart delay"
_BEGINS = {
    "supervisor.started": BEGINNING,
    "generation.ended": PAUSE,
    "restart.scheduled": DELAY,
}
ENDING = "end of the generation"
DRAIN, GRACE, KILLED = "drain", "grace", "after SIGKILL"
_STEPS_OF_A_STOP = {"SIGTERM": DRAIN, "SIGKILL": GRACE, "None": KILLED}
_REASONS = frozenset({"cluster.incident", "hang.noticed", "signal.received"})
_TELLS_STEPS = frozenset(
    {"training.started", "training.progress", "training.stalled", "generation.ended"}
)
_OF_TRAINING = frozenset({"checkpoint.saved", "training.stalled", "training.resumed"})
_MARKS = frozenset(
    {
        *("supervisor.exited", "rank_table.unchanged", "restarts.barred", "grace.ended"),
        *_OF_TRAINING,
        *_REASONS,
    }
)


def timeline(events: Iterable[ToldEvent]) -> Iterator[tuple[str, Observed]]:
    """What was seen on each host.

    The events of one host are in their order; hosts may come one after another, or mixed. A span
    comes when it has ended.
    """
    servers: dict[str, _Server] = {}
    for event in events:
        at, host = moment(event), event.get("host")
        if at is not None and isinstance(host, str):
            server = servers.get(host)
            if server is None:
                server = servers[host] = _Server()
            for seen in server.take(event, event["event"], at):
                yield host, seen
    for host, server in servers.items():
        for seen in server.close(server.last):
            yield host, seen


class _Open(Struct):
    """Something that has begun, and has not ended yet."""

    name: str
    track: Track
    begin: int
    told: dict[str, Any] = field(default_factory=dict)
    generation: int | None = None

    def until(self, end: int) -> Stretch:
        end = max(end, self.begin)
        return Stretch(self.name, self.track, self.begin, end, self.told, self.generation)


class _Server(Struct):
    """What is open on one host, until ``last``."""

    last: int = 0
    _phase: _Open | None = None
    _stop: _Open | None = None
    _processes: dict[int, _Open] = field(default_factory=dict)
    _programs: dict[str, Track] = field(default_factory=dict)
    _step: StepAt | None = None

    def take(self, event: ToldEvent, name: str, at: int) -> Iterator[Observed]:
        before, self.last = self.last, max(self.last, at)
        if name in _TELLS_STEPS:
            yield from self._trained(event, name, at)
        if name == "supervisor.started":  # the one before it may have been killed long ago
            yield from self.close(before)
        elif name in {"supervisor.exited", "generation.ended"}:
            yield from self.close(at)
        yield from self._supervisor(event, name, at)
        if name == "process.started":
            self._process_started(event, at)
        elif name == "process.exited":
            yield from self._process_exited(event, at)
        if name in _MARKS:
            yield Happening(TRAINING if name in _OF_TRAINING else SUPERVISOR, at, event)

    def close(self, at: int) -> Iterator[Stretch]:
        """End everything that is open."""
        for one in (self._phase, self._stop, *self._processes.values()):
            if one is not None:
                yield one.until(at)
        self._phase = self._stop = self._step = None
        self._processes.clear()

    def _supervisor(self, event: ToldEvent, name: str, at: int) -> Iterator[Stretch]:
        """The phases of the supervisor, one after the other, and the steps of a stop in them."""
        if name == "grace.ended":
            yield from self._stopping(GRACE, at - micros(event, "grace_seconds"))
            yield from self._stopping(KILLED, at)
        elif name == "stop.waiting":
            step = _STEPS_OF_A_STOP.get(str(event.get("then")), "stop")
            yield from self._stopping(step, at - micros(event, "waited_seconds"))
        elif name in _WAITS:
            began = at - micros(event, "waited_seconds")
            yield from self._turn(_Open(_WAITS[name], SUPERVISOR, began))
        elif name in _BEGINS:
            yield from self._turn(_Open(_BEGINS[name], SUPERVISOR, at))
        elif name == "generation.started":
            yield from self._turn(_generation(event, SUPERVISOR, at, {}))
        elif self._runs and (name in _REASONS or event.get("first_failure") is True):
            yield from self._turn(_Open(ENDING, SUPERVISOR, at, {"why": event.get("msg")}))

    @property
    def _runs(self) -> bool:
        """Whether a generation runs, and nothing has ended it yet."""
        return self._phase is not None and self._phase.name.startswith("generation ")

    def _turn(self, phase: _Open) -> Iterator[Stretch]:
        """Another phase begins, unless it is the same."""
        before = self._phase
        if before is not None:
            if before.name == phase.name:
                return
            phase.begin = max(phase.begin, before.begin)
            yield before.until(phase.begin)
        self._phase = phase

    def _stopping(self, name: str, at: int) -> Iterator[Stretch]:
        """The same of a step of a stop, which is within a phase."""
        before = self._stop or self._phase
        at = at if before is None else max(at, before.begin)
        if self._stop is not None:
            if self._stop.name == name:
                return
            yield self._stop.until(at)
        self._stop = _Open(name, SUPERVISOR, at)

    def _process_started(self, event: ToldEvent, at: int) -> None:
        rank, pid = event.get("rank"), event.get("child_pid")
        if type(pid) is not int:
            return
        if type(rank) is int and 0 <= rank < MOST_NUMBER:
            track = Track(FIRST_RANK + rank, f"rank {rank}")
        else:
            name = str(event.get("program"))
            fresh = Track(FIRST_PROGRAM + len(self._programs), name)
            track = self._programs.setdefault(name, fresh)
        told = {key: event.get(key) for key in ("child_pid", "local_rank", "log", "warm")}
        self._processes[pid] = _generation(event, track, at, told)

    def _process_exited(self, event: ToldEvent, at: int) -> Iterator[Stretch]:
        pid = event.get("child_pid")
        process = self._processes.pop(pid, None) if type(pid) is int else None
        if process is not None:
            process.told |= {key: event.get(key) for key in ("status", "signal", "first_failure")}
            yield process.until(at)

    def _trained(self, event: ToldEvent, name: str, at: int) -> Iterator[Observed]:
        """From one event to the next; how far it was is a curve, too."""
        step = event.get("step")
        if type(step) is not int:
            return
        if name == "training.stalled":
            at -= micros(event, "silent_seconds")
        if name == "training.started":
            yield _Open("start", TRAINING, at - micros(event, "start_seconds")).until(at)
        elif self._step is not None:
            told = {key: event.get(key) for key in ("seconds_per_step", "percent", "epoch")}
            steps = f"steps {self._step.step} to {step}"
            yield _Open(steps, TRAINING, self._step.at, told).until(at)
        self._step = StepAt(at, step)
        yield self._step


def _generation(event: ToldEvent, track: Track, at: int, told: dict[str, Any]) -> _Open:
    found = event.get("generation")
    return _Open(f"generation {found}", track, at, told, found if type(found) is int else None)
