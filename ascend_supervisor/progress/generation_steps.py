"""What the ranks of one generation have told of their steps, in one format; pure."""

from __future__ import annotations

from collections import deque

from msgspec import Struct, field
from msgspec.structs import replace

from ascend_supervisor.outcome import LastSeen
from ascend_supervisor.progress.account import Position
from ascend_supervisor.progress.belief import SURE
from ascend_supervisor.progress.pace import Slow
from ascend_supervisor.progress.progress import Standstill, position_of, steps_lost
from ascend_supervisor.progress.reading import Reading
from ascend_supervisor.progress.step_format import LARGEST

OF_USERS = "pattern"
PREFERRED = (OF_USERS, "notify")
"""These formats take the place of every other one as soon as they are heard, the last first."""
NEW_COUNT = 3
"""So many looks in a row at steps below the last one show a new count, not a bar drawn again."""
LATE_STEPS = 100
"""So many may still be told of workers that are being ended: in a fast job, those of a second."""
FEW_GAPS, FEW_PERCENT = 2, 2
"""So little may be missing at the end of a training: not each step is told, the last batch may be
dropped."""
AT_END = 0.8
"""An epoch was seen up to this part of it: not each drawing of a bar is looked at."""


class EpochsOf(Struct):
    """How the steps of a ``format`` begin anew in each epoch, by what was seen.

    Most formats name the epoch, or count over all; of others the same count comes again and again.
    ``done`` epochs with ``steps`` in all were seen in this generation; without a total, ``steps``
    is 0. ``has_names``: the lines tell the epoch.
    """

    format: str = ""
    has_names: bool = False
    done: int = 0
    steps: int = 0

    def placed(self, reading: Reading) -> Reading:
        """``reading`` with its step as one of all epochs, or as one of its epoch."""
        if reading.step is None or reading.format != self.format:
            return reading
        if self.has_names:
            return replace(reading, steps=None, is_within_epoch=reading.epoch is not None)
        if self.steps or not self.done:
            return replace(reading, step=reading.step + self.steps, steps=None)
        return replace(reading, steps=None, epoch=self.done + 1, is_within_epoch=True)


class GenerationSteps(Struct):
    """What the ranks of one generation have told, in the ``format`` that is believed.

    ``best`` is the best position before it. ``last`` is what was told last, as it was told, and
    ``reached`` its place; ``furthest`` is the best one. ``seconds`` per step were told without a
    step. ``below``: when steps below the last one were seen, and ``lowest`` is the lowest of them.
    ``has_resumed``: no step came since ranks told that they resumed. ``late``: so many steps may
    still come of workers that their launcher ends, before others begin.
    ``has_unnamed``, ``had_unnamed``: epochs without a name began in this generation, in one before.
    ``widest`` is the widest gap between two steps that were told one after another.
    ``is_heard``: another server has told them. ``has_ended``: no process of it is left here.
    """

    number: int
    began: float
    best: Position | None
    format: str = ""
    doubt: int = 0
    rank: int | None = None
    steps: int | None = None
    seconds: float | None = None
    last: Reading | None = None
    reached: Position | None = None
    furthest: Position | None = None
    resumed: int | None = None
    has_resumed: bool = False
    late: int = 0
    epochs: EpochsOf = field(default_factory=EpochsOf)
    has_unnamed: bool = False
    had_unnamed: bool = False
    checkpoint: int | None = None
    checkpoint_at: float | None = None
    below: set[float] = field(default_factory=set)
    lowest: int | None = None
    widest: int = 0
    is_heard: bool = False
    has_ended: bool = False
    told_at: float = 0.0
    stall: Standstill | None = None
    paces: dict[int, deque[float]] = field(default_factory=dict)
    slow: Slow | None = None

    def following(self, number: int, began: float, best: Position | None) -> GenerationSteps:
        """The next generation, which counts its epochs in the same way."""
        epochs = EpochsOf(self.epochs.format, self.epochs.has_names)
        had_unnamed = not self.is_comparable
        return GenerationSteps(number, began, best, epochs=epochs, had_unnamed=had_unnamed)

    @property
    def short(self) -> LastSeen | None:
        """The last step, if it is well before the last one that was to come; None if unknown.

        In one epoch of several, that is the last one of the epoch. What another server has told may
        be old.
        """
        last = self.last
        if last is None or self.is_heard:
            return None
        step, steps = last.step or 0, last.steps or self.steps or 0
        gap = self.widest or step - (self.resumed or 0)
        missing = steps - step
        if missing <= FEW_GAPS * gap or 100 * missing <= FEW_PERCENT * steps:
            return None
        is_apart = last.is_within_epoch or self.epochs.has_names
        return LastSeen(step, steps, last.epoch if is_apart else None)

    @property
    def is_comparable(self) -> bool:
        """Whether its steps can be compared with those of generations before it and after it."""
        return not self.has_unnamed and not self.had_unnamed

    @property
    def steps_lost(self) -> int | None:
        """Steps of earlier generations that it trains again, as far as ranks tell."""
        return steps_lost(self.best, self.resumed) if self.is_comparable else None

    def believes(self, reading: Reading) -> bool:
        """Whether its steps count: those of the first format that told some, or of a surer one."""
        if reading.step is None or not self.format:
            return True
        if self.format == reading.format:
            return reading.doubt <= self.doubt
        return self.is_less_sure(reading)

    def is_less_sure(self, reading: Reading) -> bool:
        """Less than ``reading``, which tells a step."""
        sure = _preference(self.format), -self.doubt
        return bool(self.format) and sure < (_preference(reading.format), -reading.doubt)

    def is_overtaken(self, reading: Reading) -> bool:
        """Whether what was told so far is something else than ``reading``, which is surer."""
        if reading.step is None or self.last is None or not self.is_less_sure(reading):
            return False
        return self.format != reading.format or self._place(reading) < self._place(self.last)

    def forget(self) -> None:
        """What was told so far was something else."""
        self.format, self.last, self.steps = "", None, None
        self.reached = self.furthest = None
        self.widest = 0
        self.below, self.lowest = set(), None
        self.epochs, self.has_unnamed = EpochsOf(), False

    def placed(self, reading: Reading, rank: int | None) -> Reading | None:
        """``reading`` as a step of the training, if it is believed; None if it is none or not new.

        A lower one may be a bar that is drawn again, or of a rank that is late (one look may find
        the steps of several); lower ones in several looks are another count.
        """
        last = self.last
        if reading.step is None:
            return None
        if self.format == reading.format and last is not None:
            at, before = self._place(reading), self._place(last)
            if at == before:
                return None
            if at < before and not self._falls(reading, last, rank):
                return None
        if last is not None and last.format == reading.format:
            self.widest = max(self.widest, (reading.step or 0) - (last.step or 0))
        self.last = reading
        self.below, self.lowest, self.has_resumed = set(), None, False
        self.late = max(self.late - 1, 0)
        self.format, self.doubt = reading.format, reading.doubt
        self.rank, self.is_heard = rank, False
        placed = self.epochs.placed(reading)
        self.reached = position_of(placed)
        self.furthest = max(self.furthest or self.reached, self.reached)
        if placed.steps:
            self.steps = placed.steps
        return placed

    def _place(self, reading: Reading) -> Position:
        """Of a step as it was told."""
        if self.epochs.has_names and self.epochs.format == reading.format:
            return Position(reading.epoch or 0, reading.step or 0)
        return position_of(reading)

    def _falls(self, reading: Reading, last: Reading, rank: int | None) -> bool:
        """Whether a lower step begins a new count, by now."""
        if (last.epoch or 0) < (reading.epoch or 0):
            self.epochs, self.steps = EpochsOf(reading.format, has_names=True), None
            return True
        if rank == self.rank:
            self.below.add(reading.at)
            self.lowest = min(reading.step or 0, self.lowest or LARGEST)
        if len(self.below) < NEW_COUNT:
            return False
        if self._may_be_of_epoch(reading):
            self._begin_epoch(reading, last)
        else:
            self.late = 0
            self.epochs = EpochsOf(self.epochs.format, self.epochs.has_names)
        return True

    def _may_be_of_epoch(self, reading: Reading) -> bool:
        """Whether a lower step may be one of an epoch that nobody names, and not of another life.

        It is none where the total is that of the whole training, as in what is unmistakable.
        """
        is_sure = reading.doubt == SURE and reading.format != OF_USERS
        is_of_all = is_sure and reading.steps is not None
        return not (is_of_all or reading.epoch is not None or self.has_resumed or self.late)

    def _begin_epoch(self, reading: Reading, last: Reading) -> None:
        """The same count begins anew, and nobody resumed: it is an epoch that nobody names.

        Unless it stopped on the way, or did not begin at its beginning.
        """
        self.has_unnamed = True
        total, step = last.steps or 0, last.step or 0
        is_begin = 2 * (self.lowest or 0) <= step
        if is_begin and last.steps == reading.steps and step >= AT_END * total:
            before = self.epochs if self.epochs.format == reading.format else EpochsOf()
            done = before.done + 1
            self.epochs = EpochsOf(reading.format, done=done, steps=before.steps + total)
            self.steps = None


def _preference(name: str) -> int:
    """What a rank says on purpose counts more than what its lines look like."""
    return PREFERRED.index(name) if name in PREFERRED else -1
