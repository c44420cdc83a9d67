"""The bars of tqdm: what their labels say about what they count; pure.

``label: 14%|bar| 60/420 [00:07<00:47, 7.57it/s, loss=1.2]``
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

from msgspec import Struct

from ascend_supervisor.progress.step_format import Numbers


class BarFormat(Struct, frozen=True, eq=False):
    """Bars whose label matches ``pattern``.

    Its groups: ``epoch`` and ``epochs`` (from 0 if so), and ``step`` where the label has it.
    """

    name: str
    pattern: str
    is_of_epoch: bool = False
    is_sure: bool = True
    epoch_zero: bool = False


class BarLabel(Struct, frozen=True):
    """A label that was understood."""

    format: BarFormat
    epoch: int | None = None
    epochs: int | None = None
    step: int | None = None


class TqdmBar(Struct, frozen=True):
    """One drawing of it, which ends at ``end`` of the text; ``label`` is None for other work.

    It ``is_below`` another one if the cursor goes up behind it.
    """

    label: BarLabel | None
    found: Numbers
    is_below: bool
    end: int


SIGN = "%|"
FAST_DIGITS = 2
"""So many digits may the steps of a second have."""

BARS = (
    BarFormat("torchtune", r"\d+\|(?P<step>\d+)\|Loss: \S+"),
    BarFormat("verl", r"Training Progress"),
    BarFormat("accelerate", r"Steps", is_sure=False),
    BarFormat("ms-swift", r"Train", is_sure=False),
    BarFormat("paddlenlp", r"TrainProcess"),
    BarFormat("lightning", r"Epoch (?P<epoch>\d+)", is_of_epoch=True, epoch_zero=True),
    BarFormat("tqdm-epoch", r"Epoch:? \[?(?P<epoch>\d+)/(?P<epochs>\d+)\]?", is_of_epoch=True),
    BarFormat("openrlhf", r"Train step of epoch (?P<epoch>\d+)", is_of_epoch=True, epoch_zero=True),
    BarFormat(
        "ultralytics",
        r"(?P<epoch>\d+)/(?P<epochs>\d+) +[\d.]+[KMG]B?(?: +\S+){2,12}",
        is_of_epoch=True,
    ),
    BarFormat("huggingface", "", is_sure=False),
    BarFormat(
        "tqdm",
        r"(?i:(?=.*(?:\btrain|\bsteps?\b|\biter|\bepoch|\bloss\b|fine-?tun))"
        r"(?!.*(?:eval|valid|test|predict|infer|load|sav|token|data|sampl|generat|prepar|process"
        r"|convert|map\b|filter|cach|pack|split|build|read|index|episode|epoch \[))).+",
        is_sure=False,
    ),
)


@cache
def _drawing() -> re.Pattern[str]:
    """What follows ``%|``; the rate tells what is counted: steps, not bytes or examples."""
    return re.compile(
        r"[^|]*\| *(\d{1,13})/(\d{1,13}) \[[^<\]]{1,20}<[^,\]]{1,30}, *"
        r"(?:([\d.]{1,12}|\?)(?:it|step|batch|iter)s?/s|[\d.]{1,12}s/(?:it|step|batch|iter)s?)"
        r"(?:, [^\]]*)?\](?: *(\x1b\[A))?"
    )


_PERCENT = re.compile(r" *\d{1,3}\Z")


def bar_of(text: str) -> TqdmBar | None:
    """The first bar of ``text``; None if there is none, or not all of it.

    One that has no rate is drawn before the first step: it stands where the training resumed.
    """
    at = text.find(SIGN)
    percent = _PERCENT.search(text, 0, at)
    drawn = _drawing().match(text, at + len(SIGN))
    if percent is None or drawn is None:
        return None
    label = label_of(text[: percent.start()])
    found = Numbers() if label is None else _found(label, drawn)
    return TqdmBar(label, found, drawn[4] is not None, drawn.end())


def _found(label: BarLabel, drawn: re.Match[str]) -> Numbers:
    count, total = 0 if drawn[3] == "?" else int(drawn[1]), int(drawn[2])
    if label.step is not None:  # of all epochs, while the bar counts those of one
        return Numbers(label.step if count else None)
    if label.epoch is None:
        is_fast = len((drawn[3] or "").partition(".")[0]) > FAST_DIGITS
        return Numbers(count, total, is_fast=is_fast)
    done = max(0, label.epoch - (not label.format.epoch_zero))
    return Numbers(count, total, label.epoch, label.epochs, done)


@lru_cache(maxsize=256)
def label_of(words: str) -> BarLabel | None:
    """What these words before a bar mean; None for other work than training."""
    words = words.strip().removesuffix(":").rstrip()
    for one in BARS:
        if found := _compiled(one.pattern).fullmatch(words):
            numbers = {name: int(value[:13]) for name, value in found.groupdict().items()}
            return BarLabel(one, **numbers)
    return None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)
