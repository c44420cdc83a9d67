"""The lines of a log that were asked for: by a pattern, by their level, by their time.

A line without a level belongs to the line before it, and one without a time has that of the line
before it, in the same log.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from ascend_supervisor.ctl.line_heads import Span, severity_of, time_of
from ascend_supervisor.ctl.line_patterns import LinePattern
from ascend_supervisor.ctl.line_search import Hit, search
from ascend_supervisor.ctl.log_parts import LogPart
from ascend_supervisor.ctl.logs import LineGroup


class Criteria(Struct, frozen=True):
    """Which lines are wanted; None is no criterion.

    ``pattern`` with so many lines of ``context`` around; ``severity`` an index in LEVELS; ``since``
    in seconds since the epoch. ``needs_times``: those of lines without one, too, for their order.
    """

    pattern: LinePattern | None = None
    context: int = 0
    severity: int | None = None
    since: float | None = None
    needs_times: bool = False

    @property
    def keeps_all(self) -> bool:
        """Whether every line meets them."""
        return self.pattern is None and self.severity is None and self.since is None

    @property
    def reads_times(self) -> bool:
        return self.needs_times or self.since is not None


class Bearing(Struct):
    """What is known of the line that was read last.

    ``is_recent``: it may be as late as was asked for. Without a time it may, because what is
    certainly older is not read.
    """

    time: float = 0.0
    severity: int = -1
    is_recent: bool = True

    def read(self, line: bytes, span: Span, criteria: Criteria) -> None:
        """Take in the next line."""
        if criteria.reads_times:
            moment = time_of(line, span)
            self.time = self.time if moment is None else moment
            self.is_recent = moment is None or criteria.since is None or moment >= criteria.since
        if criteria.severity is not None and (severity := severity_of(line)) is not None:
            self.severity = severity

    def is_wanted(self, criteria: Criteria) -> bool:
        return self.is_recent and (criteria.severity is None or self.severity >= criteria.severity)


def select(
    part: LogPart, criteria: Criteria, bearing: Bearing, grep: str | None
) -> Iterator[LineGroup]:
    """The lines of ``part`` that meet the ``criteria``, in its order.

    ``bearing`` is that of the line before it, and in the end of its last line that was looked at.
    Raises OSError.
    """
    if criteria.since is not None:
        if part.span.end < criteria.since:
            return
        part.skip_to(criteria.since)
    if criteria.pattern is None and criteria.severity is None:
        yield from _by_time(part, criteria, bearing)
    elif criteria.pattern is None:
        yield from _by_line(part, criteria, bearing)
    else:
        yield from _by_pattern(part, criteria, criteria.pattern, bearing, grep)


def _by_time(part: LogPart, criteria: Criteria, bearing: Bearing) -> Iterator[LineGroup]:
    """Lines that cannot have a time of their own go together: a log without times may be long."""
    for lines in part.runs():
        bearing.read(lines, part.span, criteria)
        if bearing.is_wanted(criteria):
            yield LineGroup(bearing.time, lines)


def _by_line(part: LogPart, criteria: Criteria, bearing: Bearing) -> Iterator[LineGroup]:
    for _, line in part.lines():
        bearing.read(line, part.span, criteria)
        if bearing.is_wanted(criteria):
            yield LineGroup(bearing.time, line)


def _by_pattern(
    part: LogPart,
    criteria: Criteria,
    pattern: LinePattern,
    bearing: Bearing,
    grep: str | None,
) -> Iterator[LineGroup]:
    hits = search(part, pattern, criteria.context, grep)
    if not (criteria.reads_times or criteria.severity is not None or criteria.context):
        yield from (LineGroup(0.0, hit.line) for hit in hits)
        return
    done = part.begin
    for block in _blocks(hits) if criteria.context else ([hit] for hit in hits):
        times: list[float] = []
        for hit in block:
            if hit.matches:
                _look_back(part, done, hit, criteria, bearing)
                done = hit.offset
                times += [bearing.time] * bearing.is_wanted(criteria)
        if times:
            yield LineGroup(times[0], b"".join(hit.line for hit in block))
    _look_back(part, done, Hit(part.end, b""), criteria, bearing)


def _blocks(hits: Iterator[Hit]) -> Iterator[list[Hit]]:
    """Those that follow each other without a gap."""
    block: list[Hit] = []
    for hit in hits:
        if block and hit.offset != block[-1].offset + len(block[-1].line):
            yield block
            block = []
        block.append(hit)
    if block:
        yield block


def _look_back(part: LogPart, done: int, hit: Hit, criteria: Criteria, bearing: Bearing) -> None:
    """Read ``hit``, and before it the lines that tell what it does not.

    ``bearing`` is that of the line before ``done``.
    """
    lines = [hit.line]
    wants_time = criteria.needs_times and time_of(hit.line, part.span) is None
    wants_level = criteria.severity is not None and severity_of(hit.line) is None
    before = part.lines_before(hit.offset, done, only_stamped=not wants_level)
    while (wants_time or wants_level) and (earlier := next(before, None)):
        has_time = wants_time and time_of(earlier[1], part.span) is not None
        has_level = wants_level and severity_of(earlier[1]) is not None
        if has_time or has_level:
            lines.append(earlier[1])
            wants_time, wants_level = wants_time and not has_time, wants_level and not has_level
    for line in reversed(lines):
        bearing.read(line, part.span, criteria)
