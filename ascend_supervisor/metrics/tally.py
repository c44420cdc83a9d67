"""What events have told so far, counted: a fold, pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from msgspec import Struct, field
from msgspec.structs import replace

from ascend_supervisor.events import Event
from ascend_supervisor.events.cluster import ClusterWaiting
from ascend_supervisor.events.generations import (
    GenerationEnded,
    GenerationStarted,
    RestartsBarred,
    RestartScheduled,
)
from ascend_supervisor.events.hangs import HangNoticed, HangSource
from ascend_supervisor.events.leftovers import (
    OrphansKilled,
    PortWaiting,
    ReleaseWaiting,
    StopWaiting,
    WaitEnded,
)
from ascend_supervisor.events.output import LogLost, OutputDropped
from ascend_supervisor.events.own_etcd import EtcdWaiting
from ascend_supervisor.events.peers import PeersWaiting
from ascend_supervisor.events.rank_table import RankTableReady, RankTableWaiting
from ascend_supervisor.events.supervisor import SupervisorExited, SupervisorStarted
from ascend_supervisor.events.training import TrainingStalled

RestartCause = Literal["crash", "hang", "requested", "other"]
"""``crash``: a process here failed; ``requested``: the cluster or an operator wanted it, at no
charge to the budget; ``other``: such as another server, or a device."""
CAUSES: tuple[RestartCause, ...] = get_args(RestartCause)
HANG_SOURCES: tuple[HangSource, ...] = get_args(HangSource)

Waiting = (
    RankTableWaiting
    | ClusterWaiting
    | PeersWaiting
    | EtcdWaiting
    | PortWaiting
    | ReleaseWaiting
    | StopWaiting
)
WAITS = tuple(one.name.partition(".")[0] for one in get_args(Waiting))
"""What is waited for, by the names of the events."""
EndingPart = Literal["drain", "grace", "release"]
PARTS: tuple[EndingPart, ...] = get_args(EndingPart)
WAIT_ENDS = (WaitEnded, RankTableReady, GenerationStarted, GenerationEnded, SupervisorExited)

ByLabel = Mapping[str, float]


class Tally(Struct, frozen=True):
    """``restarts_allowed`` is the whole budget; ``lost`` are bytes of logs, by rank or program.

    ``waited`` are the seconds of the waits that are over; ``wait`` goes on since ``wait_since``
    (seconds of ``Clock.elapsed``), or is empty. ``ending`` are the seconds of generations that
    end, by part; the release goes on since ``released_since``. ``cause`` is that of the next
    restart, as far as it is known.
    """

    restarts_allowed: int = 0
    restarts: ByLabel = field(default_factory=lambda: dict.fromkeys(CAUSES, 0))
    hangs: ByLabel = field(default_factory=lambda: dict.fromkeys(HANG_SOURCES, 0))
    stalls: int = 0
    lost: ByLabel = field(default_factory=dict)
    dropped_lines: int = 0
    killed: int = 0
    waited: ByLabel = field(default_factory=lambda: dict.fromkeys(WAITS, 0.0))
    wait: str = ""
    wait_since: float = 0.0
    ending: ByLabel = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))
    released_since: float | None = None
    cause: RestartCause = "other"

    def waits(self, now: float) -> ByLabel:
        """Seconds by what was waited for, with the wait that goes on."""
        return _more(self.waited, self.wait, now - self.wait_since) if self.wait else self.waited

    def endings(self, now: float) -> ByLabel:
        """Seconds of generations that end by part, with the release that goes on."""
        since = self.released_since
        return self.ending if since is None else _more(self.ending, "release", now - since)


def counted(tally: Tally, event: Event, now: float) -> Tally:
    """The tally after ``event``, which came ``now``."""
    tally = _with_ending(_with_wait(tally, event, now), event, now)
    tally = replace(tally, cause=_cause_after(tally.cause, event))
    match event:
        case SupervisorStarted():
            return replace(tally, restarts_allowed=event.restarts)
        case RestartsBarred():
            return replace(tally, restarts_allowed=0)
        case HangNoticed():
            return replace(tally, hangs=_more(tally.hangs, event.source, 1))
        case TrainingStalled():
            return replace(tally, stalls=tally.stalls + 1)
        case RestartScheduled():
            cause = "requested" if event.free else tally.cause
            return replace(tally, restarts=_more(tally.restarts, cause, 1))
        case LogLost():
            whose = teller(event.rank, event.program)
            return replace(tally, lost=_more(tally.lost, whose, event.bytes))
        case OutputDropped():
            return replace(tally, dropped_lines=tally.dropped_lines + event.lines)
        case OrphansKilled():
            return replace(tally, killed=tally.killed + event.count)
        case _:
            return tally


def teller(rank: int | None, program: str | None) -> str:
    """Whose log it is: a rank, or the program that ranks write through."""
    return program or "launcher" if rank is None else str(rank)


def _cause_after(cause: RestartCause, event: Event) -> RestartCause:
    match event:
        case GenerationStarted():
            return "other"
        case HangNoticed():
            return "hang"
        case GenerationEnded(outcome="crashed") if cause == "other":
            return "crash"
        case _:
            return cause


def _with_wait(tally: Tally, event: Event, now: float) -> Tally:
    if isinstance(event, Waiting):
        wait = event.name.partition(".")[0]
        if wait == tally.wait:
            return tally
        since = max(now - event.waited_seconds, tally.wait_since)  # no second counts twice
        return replace(tally, waited=tally.waits(since), wait=wait, wait_since=since)
    if isinstance(event, WAIT_ENDS):
        return replace(tally, waited=tally.waits(now), wait="")
    return tally


def _with_ending(tally: Tally, event: Event, now: float) -> Tally:
    """The release lasts until another generation starts, or none can any more."""
    match event:
        case GenerationEnded():
            drained = _more(tally.ending, "drain", event.drain_seconds)
            since = now if event.next == "restart" else None
            ending = _more(drained, "grace", event.grace_seconds)
            return replace(tally, ending=ending, released_since=since)
        case GenerationStarted() | SupervisorExited():
            return replace(tally, ending=tally.endings(now), released_since=None)
        case _:
            return tally


def _more(numbers: ByLabel, name: str, more: float) -> ByLabel:
    return {**numbers, name: numbers.get(name, 0) + more}
