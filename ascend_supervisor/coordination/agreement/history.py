"""Who failed first, as a job remembers it for a day, and how often is too often; pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone

from msgspec import Struct

from ascend_supervisor.outcome import Number, Seconds
from ascend_supervisor.phrases import counted

DAY_SECONDS = 86_400.0
MOST_KEPT = 10
"""So many of the last failures are remembered, and so many servers that have left."""


class FirstFailure(Struct, frozen=True):
    """The first failure of a ``generation``, on the ``server`` that had this index then.

    ``machine`` outlives the process (``incarnation``) and its container. ``at`` is Unix time, by
    the clock of the server that has written it; ``reason`` is a clause.
    """

    server: Number
    machine: str
    incarnation: str
    generation: Number
    at: Seconds
    reason: str

    def __str__(self) -> str:
        moment = datetime.fromtimestamp(self.at, timezone.utc)
        return f"generation {self.generation} at {moment:%H:%M} UTC: {self.reason}"


class LeftServer(Struct, frozen=True):
    """Who has given up its place while the job gathered for ``generation``.

    ``host`` names it to people. ``reason`` is a clause about it, without its subject.
    """

    server: Number
    incarnation: str
    generation: Number
    at: Seconds
    host: str
    reason: str


class FailureLimit(Struct, frozen=True):
    """``count`` of the last ``of`` failures are too many for one machine; a count of 0: never."""

    count: int = 0
    of: int = 3

    def __str__(self) -> str:
        return f"{self.count}/{self.of}" if self.count else "0"

    def latest(self, known: Sequence[FirstFailure], now: float) -> tuple[FirstFailure, ...]:
        """The last failures that count at ``now`` (Unix time): an older one is forgotten."""
        return tuple(one for one in known if is_recent(one, now))[-self.of :]

    def broken_by(self, machine: str, latest: Sequence[FirstFailure]) -> tuple[FirstFailure, ...]:
        """The failures of a machine that failed first too often; empty for any other."""
        found = tuple(one for one in latest if one.machine == machine)
        is_broken = machine and 0 < self.count <= len(found)
        return found if is_broken else ()


def is_recent(one: FirstFailure | LeftServer, now: float) -> bool:
    """Whether it is remembered; a clock that is a day apart is not believed."""
    return abs(now - one.at) < DAY_SECONDS


def why_left(found: Sequence[FirstFailure], latest: Sequence[FirstFailure]) -> str:
    """A clause about a server that failed first too often, without its subject."""
    told, last = "; ".join(map(str, found)), counted(len(latest), "failure")
    return f"was the first to fail in {len(found)} of the last {last} ({told})"
