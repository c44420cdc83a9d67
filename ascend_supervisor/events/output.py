"""The ranks' output: its lines, and what is missing of it."""

from __future__ import annotations

from typing import ClassVar

from ascend_supervisor.events import Event, Level
from ascend_supervisor.phrases import counted, who


class OutputDropped(Event, frozen=True):
    name: ClassVar[str] = "output.dropped"
    level: ClassVar[Level] = "warning"
    rank: int | None
    lines: int
    reason: str
    program: str | None = None

    @property
    def sentence(self) -> str:
        lines = counted(self.lines, "line")
        subject = who(self.rank, self.program)
        were, them = ("was", "it") if self.lines == 1 else ("were", "them")
        return (
            f"{lines} of {subject} {were} not copied to stdout ({self.reason}); the log has {them}"
        )


class OutputUnread(Event, frozen=True):
    name: ClassVar[str] = "output.unread"
    level: ClassVar[Level] = "warning"
    rank: int | None
    path: str
    reason: str
    program: str | None = None

    @property
    def sentence(self) -> str:
        return (
            f"the last lines of {who(self.rank, self.program)} were not copied to stdout "
            f"({self.reason}); its log has them: {self.path}"
        )


class LogBlocked(Event, frozen=True):
    name: ClassVar[str] = "log.blocked"
    level: ClassVar[Level] = "error"
    rank: int | None
    path: str
    reason: str
    program: str | None = None

    @property
    def sentence(self) -> str:
        subject = who(self.rank, self.program)
        return (
            f"{self.path} cannot be written ({self.reason}); {subject} goes on, 1 MiB of what it "
            "says is kept, and the rest is discarded and counted until the log can be written again"
        )


class LogLost(Event, frozen=True):
    name: ClassVar[str] = "log.lost"
    level: ClassVar[Level] = "error"
    rank: int | None
    bytes: int
    reason: str
    program: str | None = None

    @property
    def sentence(self) -> str:
        size = counted(self.bytes, "byte")
        whose = who(self.rank, self.program)
        return f"missing in the log of {whose}: {size}, because of this: {self.reason}"


class LogRotated(Event, frozen=True):
    name: ClassVar[str] = "log.rotated"
    rank: int | None
    path: str
    program: str | None = None

    @property
    def sentence(self) -> str:
        subject = who(self.rank, self.program)
        return f"{subject} has a new log file {self.path}; the full one is {self.path}.1"


class PlogsRemoved(Event, frozen=True):
    """``kept``: of how many ended generations such logs stay."""

    name: ClassVar[str] = "plogs.removed"
    count: int
    bytes: int
    kept: int

    @property
    def sentence(self) -> str:
        what = f"{counted(self.count, 'log')} of CANN ({self.bytes / 1e6:.1f} MB)"
        stay = f"; those of the last {counted(self.kept, 'generation')} stay" if self.kept else ""
        return f"removed {what} from earlier generations{stay}"


class Output(Event, frozen=True):
    """A mirrored line of a rank, which is its ``msg``.

    The console itself writes it, far too often for a report, and of the keys in every event only
    ``seq``, ``ts`` and ``event``: what never changes stands in the first event.
    """

    name: ClassVar[str] = "output"
    rank: int | None
    generation: int
    msg: str
    partial: bool
    program: str | None = None
