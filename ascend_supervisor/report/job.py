"""What a report tells of a job, from the events of all its servers; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct, field

from ascend_supervisor.job_files import UNNAMED_JOB
from ascend_supervisor.progress.account import CATEGORIES
from ascend_supervisor.report.failures import STOPPED, GenerationEnds, ReportedFailure, failures
from ascend_supervisor.report.servers import MOST_NAME, ReportedServer, servers
from ascend_supervisor.report.told import (
    Present,
    ToldEvent,
    lines,
    micros,
    moment,
    number,
    numbers,
    text,
    texts,
)
from ascend_supervisor.untrusted_text import printable

Advice = Literal[
    "nothing",
    "look_back",
    "look_early",
    "look_open",
    "runs",
    "stands",
    "who_stopped",
    "correct",
    "device",
    "table",
    "defect",
    "elsewhere",
    "memory",
    "hang",
    "read_lines",
    "read_sentence",
]
_OF_CODES: Mapping[int, Advice] = {
    0: "nothing",
    **dict.fromkeys((64, 65, 73, 126, 127), "correct"),
    69: "device",
    70: "defect",
    75: "table",
}
_MEMORY = "because memory ran out"
_ENDS_STALL = frozenset(
    {
        *("training.started", "training.resumed", "generation.started", "generation.ended"),
        *("supervisor.started", "supervisor.exited"),
    }
)
_NOTED = frozenset(
    {
        *("supervisor.started", "supervisor.exited", "rank_table.ready", "training.progress"),
        *("generation.started", "generation.ended", "process.started", "process.exited"),
        *("restart.scheduled", "hang.noticed", "stacks.taken", "cluster.incident"),
        *("signal.received", "training.started", "training.stalled", "training.resumed"),
    }
)


class LastWord(Struct, frozen=True):
    """The last word of a supervisor."""

    host: str
    at: int
    code: int
    reason: str
    cause: tuple[str, ...]
    account: Mapping[str, float]
    trained: str
    doubt: str

    @property
    def was_stopped(self) -> bool:
        """By a signal or an operator, perhaps while a restart after a failure was waited for."""
        return self.reason.rpartition("; ")[2].startswith(STOPPED)


class FirstWord(Struct, frozen=True):
    """The first word of a supervisor."""

    host: str
    at: int
    version: str
    command: tuple[str, ...]
    method: str
    cluster: str
    settings: tuple[str, ...]


class ToldStall(Struct, frozen=True):
    """The training stands still since ``at``; None as its ``step``: the first one has not come.

    ``seen`` is where the ranks were.
    """

    at: int
    step: int | None
    seen: str


class ReportedJob(Struct, frozen=True):
    """A job, as its servers tell it.

    ``exits`` has the last end of each host that has ended; it is empty while the job runs, or if
    every supervisor was killed. ``generations`` has the number of the last one of each host.
    ``steps`` is how many steps there are in all. ``runs``: it is seen to go on. ``stall`` is None
    unless it stands still at the ``end``. Times are microseconds since the epoch.
    """

    name: str
    begin: int
    end: int
    servers: tuple[ReportedServer, ...]
    failures: tuple[ReportedFailure, ...]
    starts: tuple[FirstWord, ...]
    exits: tuple[LastWord, ...]
    generations: Mapping[str, int]
    world_size: int | None
    steps: int | None
    restarts: int
    runs: bool = False
    stall: ToldStall | None = None

    @property
    def is_over(self) -> bool:
        """Whether each server has ended, or was lost before the last generation."""
        ended = {one.host for one in self.exits}
        last = max(self.generations.values(), default=0)
        left = (server.host for server in self.servers if server.host not in ended)
        return bool(ended) and all(self.generations.get(host, last) < last for host in left)

    @property
    def last_failure(self) -> ReportedFailure | None:
        """The failure that ended the job; None if it goes on, or has ended without one."""
        last = self.failures[-1] if self.failures else None
        return last if last is not None and last.first.next != "restart" else None

    def was_restarted(self, failure: ReportedFailure) -> bool:
        """Whether a generation came after it: a stop may have come before."""
        generation = failure.first.generation
        return generation is None or generation < max(self.generations.values(), default=0)

    @property
    def exit(self) -> LastWord | None:
        """The end of the server that decided; None while one of them runs on."""
        if not self.exits:
            return None
        last = self.last_failure
        hosts = () if last is None else (last.first.host,)
        return min(
            self.exits,
            key=lambda one: (one.host not in hosts, one.code == 0, not one.doubt, one.at),
        )

    @property
    def advice(self) -> Advice:
        """What to do about it."""
        end = self.exit
        if end is None or not (self.is_over or end.code):
            open_: Advice = "runs" if self.runs else "look_open"
            return "stands" if self.stall else open_
        if end.was_stopped:
            return "who_stopped"
        last = self.last_failure
        if end.doubt:
            return "look_early"
        if not end.code and self.failures:
            return "look_back"
        if last is None:
            return _OF_CODES.get(end.code, "read_sentence")
        told = f"{last.first.cause} {end.reason}"
        if _MEMORY in told:
            return "memory"
        if last.first.is_hang:
            return "hang"
        if "look at " in told:
            return "elsewhere"
        if last.first.rank is not None:
            return "read_lines"
        return _OF_CODES.get(end.code, "read_sentence")

    @property
    def _accountant(self) -> LastWord | None:
        """The server whose account has most of the training.

        Of several starts without a name of the job, each has an account of its own.
        """
        hosts = [one.host for one in self.starts]
        is_whole = self.name != UNNAMED_JOB or len(hosts) == len(set(hosts))
        told = (one for one in self.exits if one.account and is_whole)
        return max(told, key=lambda one: one.account.get("training", 0.0), default=None)

    @property
    def account(self) -> Mapping[str, float]:
        """What the time was spent on, in seconds.

        Where nobody tells it, because no step was seen or the job has not ended, it is that of the
        bars of one server.
        """
        told = self._accountant
        drawn = (server.seconds for server in self.servers)
        most = (
            max(drawn, key=lambda one: sum(one.values()), default={})
            if told is None
            else told.account
        )
        return {name: most[name] for name in CATEGORIES if name in most}

    @property
    def trained(self) -> str:
        """The account in a sentence; empty if none was told."""
        return "" if self._accountant is None else self._accountant.trained


class _JobSoFar(Struct):
    """What is told of the whole job, as it is read."""

    name: str = ""
    begin: int | None = None
    end: int = 0
    starts: list[FirstWord] = field(default_factory=list)
    exits: dict[str, LastWord] = field(default_factory=dict)
    ends: dict[str, GenerationEnds] = field(default_factory=dict)
    generations: dict[str, int] = field(default_factory=dict)
    world_size: int | None = None
    steps: int | None = None
    begun: dict[str, int] = field(default_factory=dict)
    stalls: dict[str, ToldStall] = field(default_factory=dict)

    def take(self, event: ToldEvent, host: str, name: str, at: int) -> None:
        self.begin = at if self.begin is None else min(self.begin, at)
        self.end = max(self.end, at)
        self.name = self.name or text(event, "job_id")
        ends = self.ends.get(host)
        if ends is None:
            ends = self.ends[host] = GenerationEnds(host)
        ends.take(event, name, at)
        self._stall(event, host, name, at)
        match name:
            case "supervisor.started":
                self.exits.pop(host, None)
                self.starts.append(_start(event, host, at))
            case "supervisor.exited":
                self.exits[host] = _exit(event, host, at)
            case "generation.started":
                self.generations[host] = number(event, "generation") or 0
                self.begun[host] = self.begun.get(host, 0) + 1
            case "rank_table.ready":
                self.world_size = number(event, "world_size")
            case "training.progress":
                self.steps = number(event, "steps") or self.steps
            case _:
                pass

    def _stall(self, event: ToldEvent, host: str, name: str, at: int) -> None:
        if name == "training.stalled":
            begin = at - micros(event, "silent_seconds")
            stall = ToldStall(begin, number(event, "step"), text(event, "seen"))
            self.stalls[host] = stall
        elif name in _ENDS_STALL:
            self.stalls.pop(host, None)


def job(events: Iterable[ToldEvent], present: Present | None = None) -> ReportedJob | None:
    """The job of these events; None if there is no event among them.

    The events of one host are in their order; hosts may come one after another, or mixed.
    ``present`` is what is known besides of a job that goes on.
    """
    kept = [*events]
    if present is not None and kept:
        kept += present.events()
    told = _JobSoFar()
    for event in kept:
        name, host = event.get("event"), event.get("host")
        if isinstance(name, str) and name in _NOTED and isinstance(host, str):
            at = moment(event)
            if at is not None:
                told.take(event, printable(host, MOST_NAME), name, at)
    found = servers(kept)
    if not found:
        return None
    moments = [at for one in found for bar in one.bars for at in (bar.begin, bar.end)]
    return ReportedJob(
        told.name,
        min(moments, default=told.begin or 0),
        max(told.end, *moments, told.begin or 0),
        found,
        failures(end for one in told.ends.values() for end in one.told),
        tuple(told.starts),
        tuple(told.exits.values()),
        told.generations,
        told.world_size,
        told.steps,
        max(told.begun.values(), default=1) - 1,
        present is not None and present.runs,
        max(told.stalls.values(), key=lambda one: one.at, default=None),
    )


def _start(event: ToldEvent, host: str, at: int) -> FirstWord:
    return FirstWord(
        host,
        at,
        text(event, "version"),
        texts(event, "command"),
        text(event, "method"),
        text(event, "cluster"),
        texts(event, "settings"),
    )


def _exit(event: ToldEvent, host: str, at: int) -> LastWord:
    return LastWord(
        host,
        at,
        number(event, "exit_code") or 0,
        text(event, "reason"),
        lines(event, "root_cause"),
        numbers(event, "account"),
        text(event, "trained"),
        text(event, "doubt"),
    )
