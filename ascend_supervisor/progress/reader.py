"""Reads steps, checkpoints and resumes in the output of one process; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ascend_supervisor.progress.bars import SIGN, TqdmBar, bar_of
from ascend_supervisor.progress.belief import Count
from ascend_supervisor.progress.counts import Counts
from ascend_supervisor.progress.formats import FORMATS, StepFormat, Tells
from ascend_supervisor.progress.reading import Reading
from ascend_supervisor.progress.records import OutputRecords, texts

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
                readings += self._told(texts(record), at)
        rest = self._records.rest
        if rest.endswith(_BAR_ENDS) and SIGN.encode() in rest:
            for bar in _bars(texts(rest)):
                readings += self._take_bar(bar, at)
        return readings

    def skip(self) -> None:
        """To be called where bytes are missing between two chunks."""
        self._records.skip()

    def end(self, at: float) -> list[Reading]:
        """What the last record says, which nothing ended."""
        record = self._records.end()
        return list(self._told(texts(record), at)) if self._may_tell(record) else []

    def _may_tell(self, record: bytes) -> bool:
        return bool(self._patterns) or any(sign in record for sign in _SIGNS)

    def _told(self, said: Iterable[str], at: float) -> Iterator[Reading]:
        for text in said:
            rest = text
            while SIGN in rest and (bar := bar_of(rest)) is not None:
                yield from self._take_bar(bar, at)
                rest = rest[bar.end :]
            yield from self._take_line(rest, at)

    def _take_bar(self, bar: TqdmBar, at: float) -> Iterator[Reading]:
        if bar.label is None:
            return
        kind = bar.label.format
        count = Count(
            kind.name,
            is_of_epoch=kind.is_of_epoch,
            is_sure=kind.is_sure,
            is_bar=True,
            is_plain=not kind.pattern,
            is_below=bar.is_below,
        )
        yield from self._counts.take(Tells.STEP, count, bar.found, at)

    def _take_line(self, text: str, at: float) -> Iterator[Reading]:
        for one in FORMATS:
            if one.sign in text and (found := one.find(text)) is not None:
                yield from self._counts.take(one.tells, _count_of(one), found, at)
                return


def _count_of(one: StepFormat) -> Count:
    return Count(
        one.name, is_of_epoch=one.is_of_epoch, has_heading=one.has_heading, is_sure=one.is_sure
    )


def _bars(said: Iterable[str]) -> Iterator[TqdmBar]:
    for text in said:
        rest = text
        while (bar := bar_of(rest)) is not None:
            yield bar
            rest = rest[bar.end :]
