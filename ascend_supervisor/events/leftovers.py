"""What holds up a start or an end: held devices, a taken port, processes that are still there."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from ascend_supervisor.events import Event, Level, Report
from ascend_supervisor.phrases import counted


class ReleaseWaiting(Event, frozen=True):
    name: ClassVar[str] = "release.waiting"
    remaining: tuple[str, ...]
    waited_seconds: float
    limit_seconds: float | None = None

    @property
    def sentence(self) -> str:
        return "the devices are still held by: " + "; ".join(self.remaining)


class PortWaiting(Event, frozen=True):
    """The ranks start when the limit has passed, whatever holds the port."""

    name: ClassVar[str] = "port.waiting"
    port: int
    waited_seconds: float
    limit_seconds: float

    @property
    def what(self) -> str:
        return f"waiting for port {self.port}, where rank 0 is to listen"

    @property
    def sentence(self) -> str:
        return (
            f"{self.what}: it is still held by connections of the last generation (for a minute, "
            "if their listener has not set SO_REUSEADDR), or by a process that listens there"
        )


class StopWaiting(Event, frozen=True):
    """``then`` is the signal that the remaining processes get when the limit has passed, if any."""

    name: ClassVar[str] = "stop.waiting"
    level: ClassVar[Level] = "warning"
    remaining: tuple[str, ...]
    waited_seconds: float = 0.0
    limit_seconds: float | None = None
    given_up: bool = False
    then: str | None = None

    @property
    def sentence(self) -> str:
        what = "SIGKILL has not ended" if self.given_up else "still waiting for the end of"
        return f"{what}: {'; '.join(self.remaining)}{self._next}"

    @property
    def _next(self) -> str:
        if self.then is None or self.limit_seconds is None:
            return ""
        return f"; {self.then} in {max(self.limit_seconds - self.waited_seconds, 0):.0f} s"


class GraceEnded(Event, frozen=True):
    """What has not ended within the grace gets SIGKILL.

    ``option`` gives it more time; None if none does, or if the grace was cut short.
    """

    name: ClassVar[str] = "grace.ended"
    level: ClassVar[Level] = "warning"
    remaining: tuple[str, ...]
    grace_seconds: float
    option: str | None = None

    @property
    def sentence(self) -> str:
        more = f"; {self.option} gives more time" if self.option else ""
        return (
            f"killed after {self.grace_seconds:.1f} s of grace, because they had not ended: "
            f"{'; '.join(self.remaining)}{more}"
        )


class WaitEnded(Event, frozen=True):
    """The end of a wait that an event told of, whatever ended it."""

    name: ClassVar[str] = "wait.ended"
    level: ClassVar[Level] = "debug"
    waited_seconds: float

    @property
    def sentence(self) -> str:
        return f"the wait is over after {self.waited_seconds:.1f} s"


def wait_ended(report: Report) -> Callable[[float], None]:
    """What reports the end of a wait of so many seconds."""
    return lambda waited: report(WaitEnded(waited))


class OrphansKilled(Event, frozen=True):
    name: ClassVar[str] = "orphans.killed"
    level: ClassVar[Level] = "warning"
    count: int
    pids: tuple[int, ...]
    earlier_start: bool

    @property
    def sentence(self) -> str:
        whose = "an earlier start of the supervisor" if self.earlier_start else "the ranks"
        return f"killed {counted(self.count, 'process', 'processes')} that {whose} had left behind"
