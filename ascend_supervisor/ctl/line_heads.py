"""What the beginning of a line in a rank's log tells: when it was written, and its level.

The supervisor does not stamp the lines of ranks. A line has a time if its logger wrote one.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from functools import lru_cache

from msgspec import Struct

from ascend_supervisor.evidence.log_records import LEVELS, level_of
from ascend_supervisor.output.earlier_logs import OURS

HEAD = 256
"""In bytes: time and level stand in them."""
FAR_SECONDS = 86400.0
"""A stamp that is this far from the times of its file is no time of its line."""
_OURS = f"{OURS} ".encode()
_MISSING = b" bytes are missing here: "
_BEFORE = (
    rb"(?:\x1b\[[0-9;]{0,16}m|[ \[]|\[rank ?[0-9]{1,9}\]: ?|\[ascend_supervisor\] ){0,8}"
    rb"(?:[A-Z]{4,9}(?:\|[^\]\n]{0,80})?\]?[ :]{1,2})?"  # a level, transformers' with a place
    rb"(?:\w{1,20}\([^)\n]{0,60}\):)?"  # CANN, MindSpore
    rb"(?:\{[^\n]{0,100}?\"@?(?:ts|time|timestamp|asctime)\": ?\")?"
)
_DAY = (
    rb"(?:(?P<year>\d{4})[-/](?P<month>\d\d)[-/](?P<day>\d\d)[T -]"
    rb"|(?P<month_us>\d\d)/(?P<day_us>\d\d)/(?P<year_us>\d{4}) "
    rb"|[DIWEF](?P<year_glog>\d{4})?(?P<month_glog>\d\d)(?P<day_glog>\d\d) )"
)
_CLOCK = (
    rb"(?P<clock>\d\d:\d\d:\d\d)(?:[.,](?P<fraction>\d{1,9})(?:\.(?P<micro>\d{3}))?)?"
    rb" ?(?P<zone>Z|[+-]\d\d:?\d\d)?"
)
_STAMP = re.compile(_BEFORE + _DAY + _CLOCK, re.ASCII)
_STAMPS = re.compile(b"^" + _STAMP.pattern, re.ASCII | re.MULTILINE)
_IN_A_STAMP = re.compile(
    rb":(?:(?<=[-/]\d\d[T -]\d\d:)|(?<=[/\dDIWEF]\d{4} \d\d:))\d\d:\d\d", re.ASCII
)
"""What every stamp has, and no duration; it begins with a letter because such a search is fast."""
_ALIKE = bytes.maketrans(b"123456789", b"000000000")
_RANK = re.compile(r"(?:\x1b\[[0-9;]{0,16}m|\[rank ?[0-9]{1,9}\]: ?){1,4}")
_TRACEBACK = ("Traceback (most recent call last):", "  + Exception Group Traceback")
_PYTHON_WARNING = re.compile(r"\S{1,200}:\d{1,9}: \w{0,60}Warning: ")


class Span(Struct, frozen=True):
    """The times of a file, in seconds since the epoch: of its first line, and its last write."""

    begin: float
    end: float

    def holds(self, moment: float) -> bool:
        return self.begin - FAR_SECONDS <= moment <= self.end + FAR_SECONDS


def is_ours(line: bytes) -> bool:
    """Whether the supervisor wrote it."""
    return line.startswith(_OURS)


def next_stamp(lines: bytes, start: int = 0) -> int:
    """Where the next line begins that may have a time, from ``start`` on; -1 if none does."""
    if _IN_A_STAMP.search(lines, start) is None:
        return -1
    found = _STAMPS.search(lines, start)
    return -1 if found is None else found.start()


def time_of(line: bytes, span: Span) -> float | None:
    """When the line was written, in seconds since the epoch, as it says itself; else None.

    A stamp without a zone is local time. One without a year is of the last year that fits.
    """
    found = _STAMP.match(line, 0, HEAD)
    if found is None:
        return None
    year, month, day = found.group("year", "month", "day")
    if year is None:
        kind = "glog" if found["month_us"] is None else "us"
        year, month, day = found.group(f"year_{kind}", f"month_{kind}", f"day_{kind}")
    second = _second(year or _year_of(span.end), month, day, found["clock"], found["zone"] or b"")
    if second is None:
        return None
    fraction = (found["fraction"] or b"") + (found["micro"] or b"")
    moment = second + (int(fraction) / 10 ** len(fraction) if fraction else 0.0)
    if year is None and not span.holds(moment):  # in January the last lines of December
        earlier = _second(_year_of(span.end, -1), month, day, found["clock"], b"")
        moment = (earlier or second) + moment - second
    return moment if span.holds(moment) else None


def severity_of(line: bytes) -> int | None:
    """The index in LEVELS of the level that the line shows, or None.

    A traceback of Python begins with an error, and ``warnings.warn`` writes a warning.
    """
    if line.startswith(_OURS):
        return LEVELS.index("warning" if _MISSING in line else "info")
    return _severity(line[:HEAD].translate(_ALIKE))


@lru_cache(maxsize=8192)
def _severity(head: bytes) -> int | None:
    """Of a line that begins so: most lines of a log differ in their digits only."""
    text = head.decode("utf-8", "replace")
    if prefix := _RANK.match(text):
        text = text[prefix.end() :]
    if text.startswith(_TRACEBACK):
        return LEVELS.index("error")
    if _PYTHON_WARNING.match(text):
        return LEVELS.index("warning")
    level = level_of(text)
    return None if level is None else LEVELS.index(level)


@lru_cache(maxsize=4096)
def _second(year: bytes, month: bytes, day: bytes, clock: bytes, zone: bytes) -> float | None:
    """None for a date that does not exist."""
    try:
        hour, minute, second = map(int, clock.split(b":"))
        moment = datetime(int(year), int(month), int(day), hour, minute, second)  # noqa: DTZ001
        return moment.replace(tzinfo=_zone(zone)).timestamp()
    except (ValueError, OverflowError):
        return None


def _zone(zone: bytes) -> timezone | None:
    """None is that of this process."""
    if zone in {b"", b"Z"}:
        return timezone.utc if zone else None
    digits = zone[1:].replace(b":", b"")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-offset if zone.startswith(b"-") else offset)


def _year_of(moment: float, more: int = 0) -> bytes:
    return str(datetime.fromtimestamp(moment).year + more).encode()  # noqa: DTZ006
