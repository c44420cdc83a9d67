"""A pattern of the user for the lines of a training loop that no known format reads; pure.

A pattern may backtrack for ever, and the search would hold the event loop all that time: threads
do not help, because it keeps Python's lock. The package regex has searches that end in time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ascend_supervisor.progress.step_format import LARGEST, Numbers
from ascend_supervisor.untrusted_text import shown

LIMIT_SECONDS = 0.05
"""A pattern that takes longer (of CPU time) for one record is switched off.

Many records that are almost as slow would add up: what one read has left over then is not searched.
"""
_NUMBERS = ("step", "steps", "epoch", "checkpoint", "resumed")
_DIGITS = 16


class PatternFormat:
    """A regular expression with the group ``step`` or ``checkpoint``, or both.

    It may have the groups steps, epoch, seconds and resumed, too. ``is_slow``: one search took too
    long, so that nothing is found any more. All readers of a job share it.
    """

    def __init__(self, expression: str, compiled: Any, cpu_seconds: Callable[[], float]) -> None:
        self.expression = expression
        self.is_slow = False
        self._is_behind = False
        self._compiled = compiled
        self._cpu_seconds = cpu_seconds
        self._left = LIMIT_SECONDS

    @property
    def slowness(self) -> str:
        """What is to be told of it; empty while it is fast enough."""
        took = f"{shown(self.expression)} took more than {LIMIT_SECONDS:g} s for"
        if self.is_slow:
            return f"{took} one line and is no longer used: write it so that it cannot backtrack"
        if self._is_behind:
            return (
                f"{took} the lines that were read at once, so that some were not searched: "
                "begin it with words that only the lines with steps have"
            )
        return ""

    def begin(self) -> None:
        """To be called before the records of one read: they have LIMIT_SECONDS in all."""
        self._left = LIMIT_SECONDS

    def find(self, text: str) -> Numbers | None:
        """What ``text`` says; None if it does not match, says no step, or there is no time left."""
        if self.is_slow or self._left <= 0:
            self._is_behind = True
            return None
        began = self._cpu_seconds()
        try:
            found = self._compiled.search(text, timeout=LIMIT_SECONDS)
        except TimeoutError:
            self.is_slow = True
            return None
        self._left -= self._cpu_seconds() - began
        if found is None:
            return None
        words = found.groupdict()
        numbers: dict[str, Any] = {name: _number(words.get(name)) for name in _NUMBERS}
        return Numbers(seconds=_seconds(words.get("seconds")), **numbers)


def no_time() -> float:
    """The ``cpu_seconds`` of one who has no limit for many records."""
    return 0.0


def format_of_pattern(expression: str, cpu_seconds: Callable[[], float] = no_time) -> PatternFormat:
    """Raises ValueError with what it expects if it is no such expression.

    ``cpu_seconds`` gives how long this thread has computed.
    """
    import regex  # noqa: PLC0415 - takes 15 ms, and hardly anybody has a pattern

    try:
        compiled = regex.compile(expression)
    except regex.error as error:
        raise ValueError(f"a regular expression, which this is not ({error})") from None
    if not {"step", "checkpoint"} & compiled.groupindex.keys():
        raise ValueError("a regular expression with a group (?P<step>...) or (?P<checkpoint>...)")
    return PatternFormat(expression, compiled, cpu_seconds)


def _number(word: str | None) -> int | None:
    """With or without thousand separators; None for all that is no step."""
    digits = (word or "").strip().replace(",", "")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= _DIGITS):
        return None
    number = int(digits)
    return number if number <= LARGEST else None


def _seconds(word: str | None) -> float | None:
    digits = (word or "").strip().replace(",", "")
    if not digits.isascii() or not digits.replace(".", "", 1).isdecimal():
        return None
    return float(digits[:_DIGITS])
