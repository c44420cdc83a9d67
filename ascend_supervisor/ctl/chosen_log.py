"""The lines of one log that were asked for, from its oldest file on, and those that come."""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from ascend_supervisor.ctl.line_selection import Bearing, Criteria, select
from ascend_supervisor.ctl.log_parts import LogFiles, LogPart, part_of
from ascend_supervisor.ctl.logs import LineGroup, LineGroups
from ascend_supervisor.files.regular_file import close_quietly
from ascend_supervisor.output.growing_logs import RotatedLog


class ChosenLog:
    """The lines of the log at ``path`` that meet ``criteria``; their last ones only if so wanted.

    They are of the last start, or of ``all_starts``. ``grep`` is the program, where it is
    installed.
    """

    def __init__(
        self,
        path: Path,
        criteria: Criteria,
        last_lines: int | None,
        grep: str | None,
        *,
        all_starts: bool = False,
    ) -> None:
        self.path = path
        self.trouble: OSError | None = OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        self._criteria = criteria
        self._last_lines = last_lines
        self._grep = grep
        self._all_starts = all_starts
        self._log = RotatedLog(path)
        self._bearing = Bearing()
        self._newest = -1
        self._at = 0

    def groups(self) -> LineGroups:
        """What is there now and was not returned yet, in whole lines."""
        try:
            yield from self._grown() if self._newest >= 0 else self._all()
            self.trouble = None
        except OSError as error:
            self.trouble = error

    def rest(self) -> Iterator[LineGroup]:
        """The unfinished line."""
        if self._newest >= 0:
            part = self._rest()
            yield from select(part, self._criteria, self._bearing, None)
            self._at = part.end

    def _all(self) -> Iterator[LineGroup]:
        files = LogFiles(self.path, all_starts=self._all_starts)
        try:
            self._newest = os.dup(files.newest)
            found = self._of_parts(files)
            yield from found if self._last_lines is None else self._last(found, self._last_lines)
        finally:
            files.close()
        self._criteria = replace(self._criteria, since=None)  # what comes now is later

    def _last(self, found: Iterator[LineGroup], count: int) -> Iterator[LineGroup]:
        """The last lines, or with a context the last groups."""
        if self._criteria.context:
            return iter(deque(found, count))
        lines = (one for group in found for one in _last_lines(group, count))
        return iter(deque(lines, count))

    def _of_parts(self, files: LogFiles) -> Iterator[LineGroup]:
        parts = files.parts()
        if self._last_lines is not None and self._criteria.keeps_all:
            parts = files.last_parts(self._last_lines)
        for part in parts:
            if part.descriptor == files.newest:
                part.cut_at_line()
                self._at = part.end
            yield from select(part, self._criteria, self._bearing, self._grep)

    def _grown(self) -> Iterator[LineGroup]:
        while True:
            following = self._log.following(self._newest)
            part = self._rest()  # with the last lines before its writer changed files
            if following < 0:
                part.cut_at_line()
            yield from select(part, self._criteria, self._bearing, None)
            self._at = part.end
            if following < 0:
                return
            close_quietly(self._newest)
            self._newest, self._at = following, 0

    def _rest(self) -> LogPart:
        part = part_of(self._newest)
        part.begin = self._at if self._at <= part.end else 0  # it may be truncated in place
        return part


def _last_lines(group: LineGroup, count: int) -> list[LineGroup]:
    """The last lines of the group, at most so many, each as a group of its own."""
    lines, end = group.lines, len(group.lines)
    found: list[LineGroup] = []
    while end and len(found) < count:
        start = lines.rfind(b"\n", 0, end - 1) + 1
        found.append(LineGroup(group.time, lines[start:end]))
        end = start
    return found[::-1]
