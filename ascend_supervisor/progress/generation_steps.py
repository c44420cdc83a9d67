"""What the ranks of one generation have told of their steps, in one format; pure."""

from __future__ import annotations

from collections import deque

from msgspec import Struct, field

from ascend_supervisor.progress.account import Position
from ascend_supervisor.progress.pace import Slow
from ascend_supervisor.progress.progress import position_of
from ascend_supervisor.progress.reading import Reading

PREFERRED = ("pattern", "notify")
"""These formats take the place of every other one as soon as they are heard, the last first."""
NEW_COUNT = 3
"""So many looks in a row at steps below the last one show a new count, not a bar drawn again."""


class GenerationSteps(Struct):
    """What the ranks of one generation have told, in the ``format`` that is believed.

    ``best`` is the best position before it. ``below``: when steps below the last one were seen.
    ``is_heard``: another server has told them. ``has_ended``: no process of it is left here.
    """

    number: int
    began: float
    best: Position | None
    format: str = ""
    rank: int | None = None
    steps: int | None = None
    reached: Position | None = None
    resumed: int | None = None
    checkpoint: int | None = None
    checkpoint_at: float | None = None
    below: set[float] = field(default_factory=set)
    is_heard: bool = False
    has_ended: bool = False
    told_at: float = 0.0
    is_stalled: bool = False
    paces: dict[int, deque[float]] = field(default_factory=dict)
    slow: Slow | None = None

    def believes(self, reading: Reading) -> bool:
        """Whether its steps count: those of the first format that told some, or of a better one."""
        if reading.step is None or self.format in {"", reading.format}:
            return True
        return _preference(reading.format) > _preference(self.format)

    def is_next(self, reading: Reading, rank: int | None) -> bool:
        """Whether it is a new step, if it is believed.

        A lower one may be a bar that is drawn again, or of a rank that is late (one look may find
        the steps of several); lower ones in several looks are another count.
        """
        position, last = position_of(reading), self.reached
        if self.format != reading.format or last is None or position > last:
            return True
        if position < last and rank == self.rank:
            self.below.add(reading.at)
        return position < last and len(self.below) >= NEW_COUNT


def _preference(name: str) -> int:
    """What a rank says on purpose counts more than what its lines look like."""
    return PREFERRED.index(name) if name in PREFERRED else -1
