"""Sends events and rank output to stdout or stderr, in the requested format."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Container
from functools import partial
from typing import Literal

import anyio

from ascend_supervisor.events import Event, Level, Report
from ascend_supervisor.events.output import OutputDropped
from ascend_supervisor.events.rank_table import RankTableReady
from ascend_supervisor.events.supervisor import SupervisorExited
from ascend_supervisor.output.console import Console
from ascend_supervisor.output.console_thread import Plain
from ascend_supervisor.output.json_lines import JsonLines, Origin
from ascend_supervisor.output.mirror import Lines, Mirror
from ascend_supervisor.output.terminal import Label, Terminal, named_label, rank_label
from ascend_supervisor.output.text_lines import RawLines, TerminalLines, TextLines
from ascend_supervisor.phrases import who
from ascend_supervisor.process_spec import ProcessSpec
from ascend_supervisor.reporters.event_log import json_log, text_log
from ascend_supervisor.reporters.joiner import Joiner
from ascend_supervisor.reporters.python_warnings import unshown
from ascend_supervisor.reporters.wait_line import WaitLine
from ascend_supervisor.tasks.clock import MonotonicClock
from ascend_supervisor.tasks.race import first
from ascend_supervisor.untrusted_text import coloured, harmless, printable

StdoutFormat = Literal["json", "text", "raw", "none"]
HURRIED_SECONDS = 1.0
"""How long rank output is still written after an impatient signal."""


class Outlets:
    """``report`` writes events; ``mirror`` returns a rank's Mirror, or None if it is not shown.

    json: both on stdout. text: both on stdout, for people. raw: the ranks' bytes on stdout, events
    for people on stderr. none: nothing on stdout, warnings and errors on stderr.
    """

    def __init__(
        self,
        console: StdoutFormat,
        ranks: Container[int],
        level: Level,
        origin: Origin,
        terminal: Terminal = Terminal(),  # noqa: B008  (a frozen value)
    ) -> None:
        self._format = console
        self._ranks = ranks
        self._origin = origin
        self._terminal = terminal
        self._waits: WaitLine | None = None
        self._joiner: Joiner | None = None
        self._digits = 1
        if os.path.sameopenfile(1, 2):  # one thread writes, so lines stay whole
            self._stdout = self._stderr = Console(1)
        else:
            self._stdout, self._stderr = Console(1, self._refused), Console(2)
        self._events = self._stdout if console in {"json", "text"} else self._stderr
        if console == "json":
            self.report: Report = json_log(self._events, origin, level)
        else:
            quiet = console == "none" and level in {"debug", "info"}
            self.report = self._for_people("warning" if quiet else level)

    async def keep_current(self) -> None:
        """Keep the words of long waits current; returns if they are not kept in one line."""
        if self._waits is not None:
            await self._waits.keep_current()

    def mirror(self, spec: ProcessSpec, generation: int) -> Mirror | None:
        shown = spec.rank is None or spec.rank in self._ranks
        if self._format == "none" or not shown:
            return None

        def dropped(lines: int, why: str) -> None:
            self.report(OutputDropped(spec.rank, lines, why, spec.program))

        def failed(error: Exception) -> None:
            self.report(unshown(who(spec.rank, spec.program), error))

        lines = self._lines(spec, generation)
        return Mirror(self._stdout, lines, dropped, failed, self._tell_starts)

    @property
    def needs_sentence(self) -> bool:
        """Whether a refusal is to be told on stderr, too: stdout is JSON, and another file.

        In one file the sentence would stand twice, and between lines of JSON.
        """
        return self._format == "json" and self._stderr is not self._stdout

    def complain(self, sentence: str) -> None:
        """Write the reason of a refusal to stderr."""
        lines = (f"ascend_supervisor: {printable(line)}\n" for line in sentence.splitlines())
        self._stderr.put(Plain("".join(lines).encode(errors="backslashreplace")))

    async def finish_output(self, seconds: float, hurry: Callable[[], Awaitable[None]]) -> None:
        """Wait until all rank output is written, for at most ``seconds``.

        After ``hurry`` returns, for at most HURRIED_SECONDS; or until the reader stalls for too
        long. The rest is dropped and reported, so that the events can be written.
        """

        async def written() -> bool:
            return await self._stdout.finish()

        async def hurried() -> bool:
            await hurry()
            await anyio.sleep(HURRIED_SECONDS)
            return False

        with anyio.move_on_after(seconds):
            if await first(written, hurried):
                return
        self._stdout.drop_output()
        await self._stdout.finish()
        self._stdout.tell_dropped()

    async def end(self, exited: SupervisorExited, refusal: str | None) -> None:
        """Write the last event, and wait until it is written, unless the reader is gone.

        A ``refusal`` also goes to stderr if stdout is JSON and another file; any failure does if
        stdout is gone.
        """
        self.report(exited)
        sentence = refusal if self.needs_sentence else None
        told = await self._events.finish() and sys.stdout is not None  # None: it was closed
        if not told and exited.exit_code and self._events is self._stdout:
            sentence = exited.root_cause or exited.msg
        if sentence:
            self.complain(sentence)
        await self.finish()

    async def finish(self) -> None:
        """Wait until all is written, unless the reader is gone."""
        await self._stdout.finish()
        await self._stderr.finish()

    def _for_people(self, level: Level) -> Report:
        paints = self._paints(1 if self._events is self._stdout else 2)
        report = text_log(self._events, self._origin, level, in_colour=paints)
        if self._has_footer:
            self._waits = WaitLine(self._stdout, report, level, MonotonicClock())
            report = self._waits.report
        self._joiner = Joiner(report)
        return self._aligned(self._joiner.report)

    def _aligned(self, report: Report) -> Report:
        """``report``, which also learns how many digits the labels of ranks need."""

        def note(event: Event) -> None:
            if isinstance(event, RankTableReady) and event.local_ranks:
                self._digits = len(str(max(event.local_ranks)))
            report(event)

        return note

    @property
    def _has_footer(self) -> bool:
        """Whether lines can be drawn below all others."""
        return self._format == "text" and self._terminal.can_erase and os.isatty(1)

    def _paints(self, fd: int) -> bool:
        return self._terminal.has_colours(is_terminal=os.isatty(fd))

    def _tell_starts(self) -> None:
        if self._joiner is not None:
            self._joiner.tell_starts()

    def _refused(self, why: str) -> None:
        self.complain(f"stdout cannot be written: {why}; it is tried again until the end")

    def _lines(self, spec: ProcessSpec, generation: int) -> Lines:
        if self._format == "json":
            return JsonLines(spec, generation)
        if self._format == "raw":
            return RawLines()
        shown = coloured if self._paints(1) else harmless
        label = self._label(spec)
        if not self._has_footer:
            return TextLines(label, shown)
        place = (1, 0) if spec.rank is None else (0, spec.rank)
        return TerminalLines(label, shown, partial(self._stdout.keep, place))

    def _label(self, spec: ProcessSpec) -> Label:
        if spec.rank is None or spec.title is not None:
            return named_label(spec.name)
        return rank_label(spec.rank, self._digits, in_colour=self._paints(1))
