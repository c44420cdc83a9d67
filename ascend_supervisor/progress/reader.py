"""Reads steps, checkpoints and resumes in the output of one process, in all known formats; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache

from ascend_supervisor.progress.bars import SIGN, BarFormat, bar_of
from ascend_supervisor.progress.belief import Count
from ascend_supervisor.progress.checkpoint_formats import CHECKPOINT_FORMATS
from ascend_supervisor.progress.counts import Counts
from ascend_supervisor.progress.language_formats import LANGUAGE_FORMATS
from ascend_supervisor.progress.loop_formats import LOOP_FORMATS
from ascend_supervisor.progress.pattern_format import PatternFormat
from ascend_supervisor.progress.reading import Reading
from ascend_supervisor.progress.records import OutputRecords, texts
from ascend_supervisor.progress.step_format import Numbers, StepFormat, Tells
from ascend_supervisor.progress.vision_formats import VISION_FORMATS

FORMATS: tuple[StepFormat, ...] = (
    *LANGUAGE_FORMATS,
    *VISION_FORMATS,
    *CHECKPOINT_FORMATS,
    *LOOP_FORMATS,
)
"""The first one that reads a line counts."""


SIGNS = (
    *(b"tep", b"poch", b"iter", b"Iter", b"heckpoint", b"%|", b"? [", b"ETA: ", b"Train: "),
    *(b"Resum", b"Saving ckpt", b"(exitcode: ", b"Sending process ", "\u2500".encode()[:2]),
)
"""Each record of a known format has one of them; the last begins the characters of bars."""
_BAR_ENDS = (b"]", b"]\x1b[A")


class Reader:
    """``read`` what a process writes, in its order; ``patterns`` are those of the user.

    Steps that the patterns tell come before all others.
    """

    def __init__(self, patterns: Iterable[PatternFormat] = ()) -> None:
        self._patterns = tuple(patterns)
        self._records = OutputRecords(() if self._patterns else SIGNS)
        self._counts = Counts()
        self._latest = FORMATS[0]
        """The format of the last line that was read is tried first."""

    def read(self, chunk: bytes, at: float) -> list[Reading]:
        """What the records say that are complete with ``chunk``, read at ``at`` (seconds).

        A bar counts as soon as it is drawn, because only the next drawing ends its record.
        """
        readings: list[Reading] = []
        for pattern in self._patterns:
            pattern.begin()
        for record in self._records.take(chunk):
            readings += self._told(record, at)
        rest = self._records.rest
        if rest.endswith(_BAR_ENDS) and SIGN.encode() in rest:
            for mark, text in texts(rest):
                self._bars(mark, text, at, readings)
        return readings

    def skip(self) -> None:
        """To be called where bytes are missing between two chunks."""
        self._records.skip()

    def end(self, at: float) -> list[Reading]:
        """What the last record says, which nothing ended."""
        return self._told(self._records.end(), at)

    def _told(self, record: bytes, at: float) -> list[Reading]:
        readings: list[Reading] = []
        for mark, said in texts(record):
            for pattern in self._patterns:
                if (found := pattern.find(said)) is not None:
                    readings += self._take_all(found, mark, at)
            text = self._bars(mark, said, at, readings) if SIGN in said else said
            if text:
                self._line(mark, text, at, readings)
        return readings

    def _take_all(self, found: Numbers, mark: str, at: float) -> list[Reading]:
        """A pattern of the user may tell all of it in one record."""
        count = _count_of_pattern(mark)
        told = (
            (Tells.RESUMED, found.resumed),
            (Tells.STEP, found.step),
            (Tells.SAVED, found.checkpoint),
        )
        return [
            reading
            for tells, number in told
            if number is not None
            for reading in self._counts.take(tells, count, found, at)
        ]

    def _bars(self, mark: str, text: str, at: float, readings: list[Reading]) -> str:
        """The text behind the bars that begin it; adds what they say."""
        while (bar := bar_of(text)) is not None:
            text = text[bar.end :]
            if bar.is_below:
                self._counts.see_inner_bar()
            if bar.label is not None and not (bar.is_below and not bar.label.format.pattern):
                count = _count_of_bar(bar.label.format, mark)
                readings += self._counts.take(Tells.STEP, count, bar.found, at)
        return text

    def _line(self, mark: str, text: str, at: float, readings: list[Reading]) -> None:
        found = self._latest.find(text) if self._latest.sign in text else None
        if found is None and _has_format().search(text):
            for one in FORMATS:
                if one.sign in text and (found := one.find(text)) is not None:
                    self._latest = one
                    break
        if found is not None:
            one = self._latest
            readings += self._counts.take(one.tells, _count_of(one, mark), found, at)


@cache
def _has_format() -> re.Pattern[str]:
    """The sign of any format: one search is faster than one for each."""
    return re.compile("|".join(sorted({re.escape(one.sign) for one in FORMATS})))


@lru_cache(maxsize=4096)
def _count_of(one: StepFormat, mark: str) -> Count:
    return Count(
        one.name,
        mark,
        is_of_epoch=one.is_of_epoch,
        has_heading=one.has_heading,
        is_sure=one.is_sure,
    )


@lru_cache(maxsize=4096)
def _count_of_bar(one: BarFormat, mark: str) -> Count:
    return Count(
        one.name,
        mark,
        is_of_epoch=one.is_of_epoch,
        is_sure=one.is_sure,
        is_bar=True,
        is_plain=not one.pattern,
    )


@lru_cache(maxsize=4096)
def _count_of_pattern(mark: str) -> Count:
    return Count("pattern", mark, is_users=True)
