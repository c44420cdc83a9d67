"""The lines of a log that were asked for: by a pattern, by their level, by their time.

A line without a level belongs to the line before it, and one without a time has that of the line
before it, in the same log. For a pattern grep searches, where there is one.
"""

from __future__ import annotations

import errno
import os
import re
import subprocess
from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from typing import IO, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.ctl.line_heads import Span, severity_of, time_of
from ascend_supervisor.ctl.line_patterns import LinePattern
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


_NUMBERED = re.compile(rb"([0-9]+)([:-])")
_NO_FAILURE = frozenset({0, 1})
"""What grep exits with after it has read everything."""


class Hit(NamedTuple):
    """A line at this ``offset`` of a file; without ``matches`` it is near one that does."""

    offset: int
    line: bytes
    matches: bool = True


def search(part: LogPart, pattern: LinePattern, context: int, grep: str | None) -> Iterator[Hit]:
    """The lines of ``part`` that match, and ``context`` lines before and after each.

    ``grep`` is the program, where it is installed. Raises OSError if the file cannot be read.
    """
    if (
        grep is not None
        and pattern.ere is not None
        and (yield from _by_grep([grep, *_options(pattern, context)], part))
    ):
        return
    found = _by_python(part, pattern)
    yield from (_with_context(found, part, context) if context else found)


def _options(pattern: LinePattern, context: int) -> list[str]:
    around = ["-C", str(context)] if context else []
    case = ["-i"] if pattern.ignores_case else []
    return ["-a", "-b", "-E", *case, *around, "-e", os.fsdecode(pattern.ere or b"")]


def _by_grep(command: list[str], part: LogPart) -> Generator[Hit, None, bool]:
    """Returns whether that was all; False if this grep cannot do it, as BusyBox's cannot."""
    os.lseek(part.descriptor, part.begin, os.SEEK_SET)
    is_first = True
    with subprocess.Popen(
        command,
        stdin=part.descriptor,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"LC_ALL": "C"},
    ) as process:
        assert process.stdout is not None  # noqa: S101  (for mypy)
        try:
            for hit in _told(process.stdout, part):
                is_first = False
                yield hit
            process.wait()
        finally:
            process.kill()
    if process.returncode in _NO_FAILURE:
        return True
    if is_first:
        return False
    raise OSError(errno.EIO, f"grep ended with {process.returncode}")


def _told(stdout: IO[bytes], part: LogPart) -> Iterator[Hit]:
    """What grep says: offsets count from where it began, and separators have none."""
    for line in stdout:
        if number := _NUMBERED.match(line):
            offset = part.begin + int(number[1])
            if offset < part.end:
                yield Hit(offset, line[number.end() :], number[2] == b":")


def _by_python(part: LogPart, pattern: LinePattern) -> Iterator[Hit]:
    for at, lines in part.whole_lines():
        start = _next_line(lines, 0, pattern)
        while start < len(lines):
            end = lines.find(b"\n", start) + 1 or len(lines)
            line = lines[start:end]
            if pattern.of_line.search(line.removesuffix(b"\n")):
                yield Hit(at + start, line)
            start = _next_line(lines, end, pattern)


def _next_line(lines: bytes, start: int, pattern: LinePattern) -> int:
    """Where the next line begins that may match, from ``start`` on, where a line begins."""
    if pattern.of_lines is None:
        return start
    found = pattern.of_lines.search(lines, start)
    return len(lines) if found is None else max(lines.rfind(b"\n", start, found.start()) + 1, start)


def _with_context(found: Iterable[Hit], part: LogPart, size: int) -> Iterator[Hit]:
    at, is_after = part.begin, False  # what is before is given, or too far from a match
    for hit in found:
        for near in _after(part, at, hit.offset, size if is_after else 0):
            yield near
            at = near.offset + len(near.line)
        before = islice(part.lines_before(hit.offset, at), size)
        yield from [Hit(*one, matches=False) for one in before][::-1]
        yield hit
        at, is_after = hit.offset + len(hit.line), True
    yield from _after(part, at, part.end, size if is_after else 0)


def _after(part: LogPart, begin: int, end: int, size: int) -> list[Hit]:
    lines = replace(part, begin=begin, end=end).lines() if size else ()
    return [Hit(*one, matches=False) for one in islice(lines, size)]
