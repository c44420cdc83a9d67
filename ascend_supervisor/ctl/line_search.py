"""The lines of a file that match a pattern: found by GNU grep where it can, else by Python."""

from __future__ import annotations

import errno
import os
import re
import subprocess
from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from typing import IO, NamedTuple

from msgspec.structs import replace

from ascend_supervisor.ctl.line_patterns import LinePattern
from ascend_supervisor.ctl.log_parts import LogPart

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
