"""What a row of the tables of formats is: how a framework writes one kind of line; pure."""

from __future__ import annotations

import re
from enum import Enum, auto
from functools import cache
from typing import Any, Final

from msgspec import Struct


class Tells(Enum):
    """What a line of a format says."""

    STEP = auto()
    EPOCH = auto()
    """A heading: the steps after it belong to this epoch."""
    STEPS = auto()
    """How many steps there are in all, before the first one."""
    SAVING = auto()
    """A checkpoint is being saved: it is complete if the training goes on."""
    SAVING_STEP = auto()
    """The step of the checkpoint that is being saved, on a line of its own."""
    SCHEDULED = auto()
    """It is saved in the background: another line tells when it is complete."""
    SAVED = auto()
    RESUMED = auto()
    """From which step; without it, from the one before the next step."""
    ENDING = auto()
    """A launcher ends its workers: others may begin in the same output."""
    DONE = auto()
    """An evaluation after so many steps."""
    TIME = auto()
    """How long a step takes, without its number."""
    LOSS = auto()
    """A loss of the training, without its step."""
    MOVED_ON = auto()
    """No step, but what follows a checkpoint that is complete."""


class Numbers(Struct, frozen=True):
    """What a record says, in steps that are done; ``epoch`` is as printed.

    ``epochs_done`` are those before the step, or before the checkpoint; ``epochs`` are all. It
    ``is_fast`` if it was counted faster than a training makes steps, as data are (and, for a
    moment, the steps that a training skips when it resumes).
    """

    step: int | None = None
    steps: int | None = None
    epoch: int | None = None
    epochs: int | None = None
    epochs_done: int | None = None
    seconds: float | None = None
    checkpoint: int | None = None
    resumed: int | None = None
    is_fast: bool = False


class Example(Struct, frozen=True):
    """A line, and what it says."""

    text: str
    found: Numbers


class StepFormat(Struct, frozen=True, eq=False):
    """How one framework writes one kind of line.

    ``sign`` is in each such line. In ``pattern``, ``<step>`` stands for a number: step, steps,
    epoch, epochs (all), epochs_done, next_epoch, checkpoint, resumed; or for a time: seconds, ms.
    ``zero`` names those that count from 0, so that the printed number is one less.
    ``is_of_epoch``: steps are counted within the epoch; ``has_heading``: a line before has told
    which. What is not ``is_sure`` is believed when it has grown for some time.
    """

    name: str
    sign: str
    pattern: str
    examples: tuple[Example, ...] = ()
    tells: Tells = Tells.STEP
    zero: tuple[str, ...] = ()
    is_of_epoch: bool = False
    has_heading: bool = False
    is_sure: bool = True

    def find(self, text: str) -> Numbers | None:
        """What ``text`` says; None if it has another format, or a number too large to be true."""
        found = compiled(self.pattern).search(text)
        return None if found is None else self.numbers(found.groupdict())

    def numbers(self, words: dict[str, str | None]) -> Numbers | None:
        """The same of the numbers as they are written, None where there is none."""
        seconds = None
        numbers: dict[str, Any] = {}
        for name, word in words.items():
            if word is None:
                continue
            if name in TIMES:
                seconds = float(word) / TIMES[name]
                continue
            number = int(word.replace(",", "")) + (name in self.zero)
            if number > LARGEST:
                return None
            numbers[name] = number
        if "epoch" in numbers:
            numbers["epochs_done"] = max(0, numbers["epoch"] - 1)
            numbers["epoch"] -= "epoch" in self.zero
        elif "next_epoch" in numbers:
            numbers["epochs_done"] = max(0, numbers.pop("next_epoch") - 1)
        return Numbers(seconds=seconds, **numbers)


def row(
    name: str,
    tells: Tells,
    sign: str,
    pattern: str,
    example: str,
    numbers: Numbers = Numbers(),  # noqa: B008  (it is frozen)
    zero: tuple[str, ...] = (),
) -> StepFormat:
    """A line that tells no step, with its example."""
    return StepFormat(name, sign, pattern, (Example(example, numbers),), tells, zero)


LARGEST = 10**12
"""A larger number is no step."""
TIMES: Final = {"seconds": 1, "ms": 1000}
_NUMBER: Final = r"(?:\d{1,3}(?:,\d{3}){1,4}|\d{1,13})(?![0-9]|,[0-9]{3})"
_TIME: Final = r"\d{1,9}(?:\.\d{1,9})?"


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """``pattern`` with its numbers; when it is first needed, because it takes a millisecond."""
    return re.compile(re.sub(r"(?<!\?P)<([a-z_]+)>", _group, pattern), re.ASCII)


def _group(name: re.Match[str]) -> str:
    return rf"(?P<{name[1]}>{_TIME if name[1] in TIMES else _NUMBER})"
