"""The files of a log, the oldest first: of earlier starts, rotated ones, and the newest.

The newest may be rotated at any time, so all of them but those set aside are opened at once: a name
means nothing later.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from ascend_supervisor.ctl.line_heads import Span, is_ours, next_stamp, time_of
from ascend_supervisor.ctl.log_starts import LogStart, start_in
from ascend_supervisor.files.regular_file import close_quietly, open_regular_file, opened
from ascend_supervisor.output.earlier_logs import HEAD_BYTES, files_set_aside
from ascend_supervisor.output.growing_logs import RotatedLog, open_at_last_lines

PIECE_BYTES = 1024 * 1024
"""How much of a file is read at once. A line that is longer is taken for several."""
FIRST_BYTES = 4096
"""How much is read first where the end of the search is probably near."""
SLACK_BYTES = 1024 * 1024
"""Buffered output and several loggers put lines out of order, but not farther than this."""


class LogPart(Struct):
    """An open file of a log; of its bytes those from ``begin`` to ``end`` are wanted."""

    descriptor: int
    begin: int
    end: int
    span: Span

    def pieces(self) -> Iterator[bytes]:
        """What is wanted, in pieces."""
        at = self.begin
        while at < self.end:
            piece = os.pread(self.descriptor, min(PIECE_BYTES, self.end - at), at)
            if not piece:  # it was truncated
                return
            at += len(piece)
            yield piece

    def whole_lines(self) -> Iterator[tuple[int, bytes]]:
        """The same, cut between lines; each piece with its offset."""
        at, rest = self.begin, b""
        for piece in self.pieces():
            rest += piece
            end = rest.rfind(b"\n") + 1
            if not end and len(rest) > PIECE_BYTES:
                end = len(rest)
            if end:
                yield at, rest[:end]
                at, rest = at + end, rest[end:]
        if rest:
            yield at, rest

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Each line with its offset and its end."""
        for at, lines in self.whole_lines():
            start = 0
            while start < len(lines):
                end = lines.find(b"\n", start) + 1 or len(lines)
                yield at + start, lines[start:end]
                start = end

    def runs(self) -> Iterator[bytes]:
        """The lines that may have a time one by one, and what is between them at once."""
        for _, lines in self.whole_lines():
            start = 0
            while (line := next_stamp(lines, start)) >= 0:
                if line > start:
                    yield lines[start:line]
                start = lines.find(b"\n", line) + 1 or len(lines)
                yield lines[line:start]
            if start < len(lines):
                yield lines[start:]

    def lines_before(
        self, offset: int, floor: int = 0, *, only_stamped: bool = False
    ) -> Iterator[tuple[int, bytes]]:
        """The lines from ``floor`` to ``offset``, where a line begins; the last one first.

        ``only_stamped``: pieces in which no line has a time may be left out.
        """
        floor = max(floor, self.begin)
        end, rest, size = offset, b"", FIRST_BYTES
        while end > floor:
            start = max(end - size, floor)
            data = os.pread(self.descriptor, end - start, start) + rest
            first = data.find(b"\n") + 1 if start > floor else 0
            if start > floor and not first and len(data) <= PIECE_BYTES:
                first = len(data)  # no line begins here
            if not only_stamped or next_stamp(data, first) >= 0:
                yield from _backwards(data, first, start)
            end, rest, size = start, data[:first], min(size * 4, PIECE_BYTES)

    def cut_at_line(self) -> None:
        """Leave out the line at the end that is not finished."""
        for offset, line in self.lines_before(self.end):
            self.end = self.end if line.endswith(b"\n") else offset
            return

    def skip_to(self, since: float) -> None:
        """Begin at the last line that is certainly older than ``since``, and so is all before it.

        It is the last one with an earlier time that comes before all with a later one. What follows
        it without a time may be as late as ``since``.
        """
        recent, begin = self.end, self.begin
        for offset, line in self.lines_before(self.end, only_stamped=True):
            moment = time_of(line, self.span)
            if moment is None:
                continue
            if moment >= since:
                recent, begin = offset, self.begin
                continue
            begin = max(begin, offset)
            if is_ours(line) or recent - offset > SLACK_BYTES:
                break
        self.begin = begin


def _backwards(data: bytes, first: int, start: int) -> Iterator[tuple[int, bytes]]:
    at = len(data)
    while at > first:
        line = data.rfind(b"\n", first, at - 1) + 1 or first
        yield start + line, data[line:at]
        at = line


def part_of(descriptor: int) -> LogPart:
    """All of an open file; raises OSError."""
    found = os.fstat(descriptor)
    first = os.pread(descriptor, HEAD_BYTES, 0)
    endless = Span(0.0, found.st_mtime)
    begin = time_of(first, endless) if is_ours(first) else None
    return LogPart(descriptor, 0, found.st_size, Span(begin or 0.0, found.st_mtime))


def _start_of(descriptor: int) -> LogStart | None:
    return start_in(os.pread(descriptor, HEAD_BYTES, 0))


class LogFiles:
    """The files of the log at ``path`` as they are now; raises OSError without a newest one.

    Without ``all_starts`` those of the start that writes the newest one, as far as that is told.
    """

    def __init__(self, path: Path, *, all_starts: bool) -> None:
        self._path = path
        log = RotatedLog(path)
        self._open = [open_regular_file(path)]
        self._aside = files_set_aside(path) if all_starts else []
        start = None if all_starts else _start_of(self.newest)
        with suppress(OSError):  # there is none before
            while True:
                before = log.opened_before(self._open[0])
                if start is not None and _start_of(before) != start:
                    close_quietly(before)
                    return
                self._open.insert(0, before)

    @property
    def newest(self) -> int:
        """The descriptor of the newest one."""
        return self._open[-1]

    def parts(self) -> Iterator[LogPart]:
        """The oldest first; each may be used until the next one is asked for."""
        for path in self._aside:
            with suppress(OSError), opened(path) as descriptor:
                yield part_of(descriptor)
        for descriptor in self._open:
            yield part_of(descriptor)

    def last_parts(self, lines: int) -> Iterator[LogPart]:
        """What holds the last ``lines`` lines of this start, an unfinished one included."""
        file, at = open_at_last_lines(self._path, lines)
        try:
            begins = [os.path.sameopenfile(file, one) for one in self._open]
        finally:
            close_quietly(file)
        first = begins.index(True) if True in begins else 0  # else it was begun just now
        for number, descriptor in enumerate(self._open[first:]):
            part = part_of(descriptor)
            part.begin = 0 if number or True not in begins else at
            yield part

    def close(self) -> None:
        for descriptor in self._open:
            close_quietly(descriptor)
