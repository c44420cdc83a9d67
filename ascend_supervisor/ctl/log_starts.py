"""Which start of a job has written a log, by the first line that the supervisor writes there."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from msgspec import Struct

from ascend_supervisor.phrases import counted

_FIRST = re.compile(
    rb"\[ascend_supervisor\] \S+ log of [^\n]{1,200}?, (?P<job>job [^\n]{1,600}), "
    rb"supervisor process \d{1,9}, started (?P<began>\S{1,40})[,\n]"
)


class LogStart(Struct, frozen=True):
    """A start of a ``job`` on one server, and when it ``began`` (RFC 3339, UTC)."""

    job: bytes
    began: bytes


class OfStart(Protocol):
    @property
    def start(self) -> LogStart | None: ...


Log = TypeVar("Log", bound=OfStart)


def start_in(head: bytes) -> LogStart | None:
    """The start of which a log with this ``head`` is, if that is told."""
    found = _FIRST.match(head)
    return None if found is None else LogStart(found["job"], found["began"])


def of_last_starts(logs: Sequence[Log], say: Callable[[str], object]) -> list[Log]:
    """Without the logs of starts after which the same job was started again on the same server.

    ``say`` is told how many there were.
    """
    last: dict[bytes, bytes] = {}
    for log in logs:
        if log.start is not None:
            last[log.start.job] = max(log.start.began, last.get(log.start.job, b""))
    kept = [log for log in logs if log.start is None or log.start.began == last[log.start.job]]
    if left_out := len(logs) - len(kept):
        say(f"{counted(left_out, 'log')} of earlier starts left out; --all-starts takes them in")
    return kept
