"""Hangs: what was noticed, and what the ranks' stacks show."""

from __future__ import annotations

from typing import ClassVar, Literal

from ascend_supervisor.events import Event, Level
from ascend_supervisor.phrases import counted

HangSource = Literal["silence", "rank_silence", "watchdog", "startup", "trigger", "steps"]


class HangNoticed(Event, frozen=True):
    """``ranks`` hang, the one that stopped first ahead; ``last_lines`` are theirs, in this order.

    Ranks that share a launcher's pipe share one last line. ``silent_seconds`` is how long the
    first one has given no sign of life.
    """

    name: ClassVar[str] = "hang.noticed"
    level: ClassVar[Level] = "error"
    generation: int
    source: HangSource
    limit_seconds: float
    ranks: tuple[int, ...]
    silent_seconds: float
    last_lines: tuple[str, ...]
    reason: str

    @property
    def sentence(self) -> str:
        return f"generation {self.generation} hangs: {self.reason}"


class StacksTaken(Event, frozen=True):
    """``summary`` says who waits where, and why files are missing, if any are."""

    name: ClassVar[str] = "stacks.taken"
    level: ClassVar[Level] = "warning"
    generation: int
    directory: str
    files: tuple[str, ...]
    summary: str
    duration_seconds: float

    @property
    def sentence(self) -> str:
        if not self.files:
            return self.summary
        return f"{self.summary}; {counted(len(self.files), 'file')} in {self.directory}"
