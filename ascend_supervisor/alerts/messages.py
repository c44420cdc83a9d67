"""Which events are incidents, and the one message for each of the whole job; pure.

A hang that ends its generation is told by what follows it, the restart or the end of the job, and
so only once. Where servers agree (--peers), the one with the root cause tells.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from ascend_supervisor.events import Event
from ascend_supervisor.events.generations import (
    GenerationStarted,
    ProcessExited,
    ProcessStarted,
    RestartScheduled,
)
from ascend_supervisor.events.hangs import HangNoticed
from ascend_supervisor.events.supervisor import SupervisorExited
from ascend_supervisor.events.training import TrainingStalled
from ascend_supervisor.life import JobSeen, loss_of
from ascend_supervisor.phrases import who
from ascend_supervisor.settings.alert_options import AlertKind
from ascend_supervisor.untrusted_text import within

TEXT_BYTES = 2000
"""WeCom takes 2048."""
GONE = frozenset({"missing", "left", "lost"})
"""Phases of servers that can tell nothing."""
PROGRAM = "ascend_supervisor"
"""Every message begins with it: robots may be set to accept only messages with a keyword."""


class Course(Struct, frozen=True):
    """What has happened in this generation: who writes which log, and ``log``, that of the cause.

    ``hangs``: a hang ends it.
    """

    logs: Mapping[str, str] = field(default_factory=dict)
    log: str = ""
    hangs: bool = False


class Alert(Struct, frozen=True):
    """``text`` is one sentence; ``log`` is empty if the cause has none, ``level`` the event's.

    ``root_cause`` has the last lines of the rank that failed, too; it is empty without a failure.
    """

    kind: AlertKind
    event: str
    level: str
    ts: str
    job_id: str
    host: str
    log: str
    text: str
    root_cause: str = ""


class Sender(Struct, frozen=True):
    """Who tells: ``logs`` is the directory of the logs on ``host``."""

    job_id: str
    host: str
    logs: str


def after(course: Course, event: Event) -> Course:
    """The course with this event."""
    match event:
        case GenerationStarted():
            return Course()
        case ProcessStarted():
            return replace(course, logs={**course.logs, _who(event): event.log})
        case ProcessExited(first_failure=True):
            return replace(course, log=course.logs.get(_who(event), course.log))
        case HangNoticed():
            ranks = (course.logs.get(who(rank, None), "") for rank in event.ranks[:1])
            return replace(course, hangs=True, log=next(ranks, "") or course.log)
        case _:
            return course


def _who(event: ProcessStarted | ProcessExited) -> str:
    return who(event.rank, event.program)


def alert_of(
    event: Event,
    course: Course,
    kinds: Collection[AlertKind],
    sender: Sender,
    account: Callable[[], str],
    ts: str,
) -> Alert | None:
    """What is told of ``event``; None if it is no incident, or none of these ``kinds``.

    ``account`` says what the time was spent on, as far as that is known.
    """
    kind = _kind(event, course)
    if kind is None or not _kinds(kind, course) & set(kinds):
        return None
    is_end = isinstance(event, SupervisorExited)  # its sentence holds the account
    said = "; ".join(filter(None, (event.msg, "" if is_end else account())))
    log = "" if kind == "ended" else course.log
    look = "" if kind == "ended" else f"; look at {log or sender.logs} on {sender.host}"
    head = f"{PROGRAM}: job {sender.job_id}: "
    room = TEXT_BYTES - len(f"{head}{look}".encode())
    return Alert(
        kind=kind,
        event=event.name,
        level=event.severity,
        ts=ts,
        job_id=sender.job_id,
        host=sender.host,
        log=log,
        text=f"{head}{within(said, room)}{look}",
        root_cause=_root_cause(event),
    )


def _root_cause(event: Event) -> str:
    if isinstance(event, RestartScheduled | SupervisorExited):
        return event.root_cause or ""
    return ""


def _kind(event: Event, course: Course) -> AlertKind | None:
    """A hang is told by what follows it."""
    if isinstance(event, HangNoticed):
        return None
    kind = kind_of(event)
    return "hang" if kind == "restarted" and course.hangs else kind


def _kinds(kind: AlertKind, course: Course) -> set[AlertKind]:
    """All by which it may be wanted."""
    if kind == "hang" and course.hangs:
        return {"hang", "restarted"}
    return {"hang", kind} if kind == "failed" and course.hangs else {kind}


def culprit_of(event: Event) -> int | None:
    """The index of the server that the cause is on; None if that is not known."""
    return event.peers_server if isinstance(event, RestartScheduled | SupervisorExited) else None


def tells(seen: JobSeen | None, event: Event) -> bool:
    """Whether this server is the one to tell of ``event``, as it has ``seen`` the others last.

    It is the server with the cause, if that can, else the first one that can. A stall is told by
    every server that reports it: only those do whose ranks tell steps.
    """
    if seen is None or isinstance(event, TrainingStalled):
        return True
    if seen.server is None:  # a spare
        return False
    able = {one.server for one in seen.servers if one.phase not in GONE} | {seen.server}
    culprit = culprit_of(event)
    if culprit is not None and loss_of(culprit) in event.msg:
        able -= {culprit}
    return seen.server == (culprit if culprit in able else min(able))


def kind_of(event: Event) -> AlertKind | None:
    """The word of --notify-on for it; None if there is none."""
    match event:
        case SupervisorExited(exit_code=0):
            return "ended"
        case SupervisorExited():
            return "failed"
        case RestartScheduled():
            return "restarted"
        case HangNoticed() | TrainingStalled():
            return "hang"
        case _:
            return None
