"""What is waited for just now, as the events tell it, in the words of one line; pure."""

from __future__ import annotations

from math import ceil

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.events import Event
from ascend_supervisor.events.cluster import ClusterWaiting
from ascend_supervisor.events.generations import (
    GenerationEnded,
    GenerationStarted,
    ProcessExited,
    RestartScheduled,
)
from ascend_supervisor.events.leftovers import (
    PortWaiting,
    ReleaseWaiting,
    StopWaiting,
    WaitEnded,
)
from ascend_supervisor.events.own_etcd import EtcdWaiting
from ascend_supervisor.events.peers import PeersWaiting
from ascend_supervisor.events.rank_table import RankTableReady, RankTableWaiting
from ascend_supervisor.events.supervisor import ExitLingering, SupervisorExited
from ascend_supervisor.output.text_width import cut
from ascend_supervisor.untrusted_text import printable

MINUTE, HOUR, DAY = 60, 3600, 86400
FEWEST_WORDS = 20
"""Columns; in a narrower window the time is left out."""


class Wait(Struct, frozen=True):
    """A wait for ``words``, after ``waited`` seconds of at most ``limit`` (None: no limit)."""

    words: str
    waited: float
    limit: float | None


def wait_after(wait: Wait | None, event: Event) -> Wait | None:
    """What is waited for after ``event``; None if nothing is."""
    match event:
        case RankTableWaiting() | ClusterWaiting() | PortWaiting():
            return Wait(event.what, event.waited_seconds, event.limit_seconds)
        case PeersWaiting():
            return Wait(event.what, event.waited_seconds, None)
        case EtcdWaiting():
            return Wait(event.what, event.waited_seconds, event.limit_seconds)
        case ReleaseWaiting():
            words = f"waiting for the release of the devices by {'; '.join(event.remaining)}"
            return Wait(words, event.waited_seconds, event.limit_seconds)
        case StopWaiting(given_up=False):
            words = f"waiting for the end of {'; '.join(event.remaining)}"
            return Wait(words, event.waited_seconds, event.limit_seconds)
        case ProcessExited() if wait is not None:  # one of those that were named, perhaps
            return replace(wait, words="waiting for the end of the other processes")
        case ExitLingering():
            return Wait("waiting before the end (--exit-linger)", 0.0, event.delay_seconds)
        case RestartScheduled() if event.delay_seconds:
            return Wait("waiting before the restart of all ranks", 0.0, event.delay_seconds)
        case (
            WaitEnded()
            | StopWaiting()
            | RankTableReady()
            | GenerationStarted()
            | GenerationEnded()
            | RestartScheduled()
            | SupervisorExited()
        ):
            return None
        case _:
            return wait


def is_only_a_wait(event: Event) -> bool:
    """Whether ``event`` says nothing but what is waited for, and why."""
    match event:
        case RankTableWaiting() | ClusterWaiting() | PeersWaiting():
            return True
        case ReleaseWaiting() | PortWaiting():
            return True
        case EtcdWaiting():
            return True
        case StopWaiting(given_up=False):
            return True
        case _:
            return False


def line(wait: Wait, waited: float, columns: int) -> str:
    """The line after ``waited`` seconds, at most ``columns`` wide; the words are cut first."""
    words = printable(wait.words)
    until = "" if wait.limit is None else f", until {duration(ceil(wait.limit))}"
    time = f" ({duration(int(waited))}{until})"
    if columns < len(time) + FEWEST_WORDS:
        return cut(words, columns)
    return cut(words, columns - len(time)) + time


def duration(seconds: int) -> str:
    """In the two largest units: 45 s, 2 min 10 s, 1 h 5 min, 3 d 1 h."""
    if seconds < MINUTE:
        return f"{seconds} s"
    for unit, name, part, part_name in (
        (DAY, "d", HOUR, "h"),
        (HOUR, "h", MINUTE, "min"),
        (MINUTE, "min", 1, "s"),
    ):
        if seconds >= unit:
            rest = seconds % unit // part
            return f"{seconds // unit} {name}" + (f" {rest} {part_name}" if rest else "")
    raise AssertionError
