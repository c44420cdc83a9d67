"""Reads steps, checkpoints and resumes in the output of one process; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from ascend_supervisor.progress.bars import SIGN, BarFormat, bar_of
from ascend_supervisor.progress.belief import Count
from ascend_supervisor.progress.counts import Counts
from ascend_supervisor.progress.formats import FORMATS
from ascend_supervisor.progress.reading import Reading
from ascend_supervisor.progress.records import OutputRecords, texts
from ascend_supervisor.progress.step_format import StepFormat, Tells

_SIGNS = (b"tep", b"poch", b"ter", b"%|", b"heckpoint", b"it/s", b"s/it", b"rain", b"pdates")
"""Each record of a known format has one of them."""
_BAR_ENDS = (b"]", b"]\x1b[A")


class Reader:
    """``read`` what a process writes, in its order; ``patterns`` are those of the user.

    Steps that the patterns tell come before all others.
    """

    def __init__(self, patterns: Iterable[StepFormat] = ()) -> None:
        self._patterns = tuple(patterns)
        self._records = OutputRecords()
        self._counts = Counts()

    def read(self, chunk: bytes, at: float) -> list[Reading]:
        """What the records say that are complete with ``chunk``, read at ``at`` (seconds).

        A bar counts as soon as it is drawn, because only the next drawing ends its record.
        """
        readings: list[Reading] = []
        for record in self._records.take(chunk):
            if self._may_tell(record):
                readings += self._told(record, at)
        rest = self._records.rest
        if rest.endswith(_BAR_ENDS) and SIGN.encode() in rest:
            for mark, text in texts(rest):
                _, found = self._bars(mark, text, at)
                readings += found
        return readings

    def skip(self) -> None:
        """To be called where bytes are missing between two chunks."""
        self._records.skip()

    def end(self, at: float) -> list[Reading]:
        """What the last record says, which nothing ended."""
        record = self._records.end()
        return list(self._told(record, at)) if self._may_tell(record) else []

    def _may_tell(self, record: bytes) -> bool:
        return any(sign in record for sign in _SIGNS) or bool(self._patterns)

    def _told(self, record: bytes, at: float) -> Iterator[Reading]:
        for mark, text in texts(record):
            rest, found = self._bars(mark, text, at)
            yield from found
            yield from self._line(mark, rest, at)

    def _bars(self, mark: str, text: str, at: float) -> tuple[str, list[Reading]]:
        """The text behind the bars that begin it, and what they say."""
        found: list[Reading] = []
        while SIGN in text and (bar := bar_of(text)) is not None:
            text = text[bar.end :]
            if bar.label is not None and not (bar.is_below and not bar.label.format.pattern):
                count = _count_of_bar(bar.label.format, mark)
                found += self._counts.take(Tells.STEP, count, bar.found, at)
        return text, found

    def _line(self, mark: str, text: str, at: float) -> Iterator[Reading]:
        for one in FORMATS:
            if one.sign in text and (found := one.find(text)) is not None:
                yield from self._counts.take(one.tells, _count_of(one, mark), found, at)
                return


@lru_cache(maxsize=256)
def _count_of(one: StepFormat, mark: str) -> Count:
    return Count(
        one.name,
        mark,
        is_of_epoch=one.is_of_epoch,
        has_heading=one.has_heading,
        is_sure=one.is_sure,
    )


@lru_cache(maxsize=256)
def _count_of_bar(one: BarFormat, mark: str) -> Count:
    return Count(
        one.name,
        mark,
        is_of_epoch=one.is_of_epoch,
        is_sure=one.is_sure,
        is_bar=True,
        is_plain=not one.pattern,
    )
