"""The logs of the ranks: opened once, kept over all generations."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import NoReturn

import anyio
from msgspec import Struct

from ascend_supervisor.errors import CannotWrite, Unavailable
from ascend_supervisor.events import Event, Report
from ascend_supervisor.events.output import LogBlocked, LogLost, LogRotated
from ascend_supervisor.files.regular_file import reason_of
from ascend_supervisor.output.earlier_logs import OURS, start_words
from ascend_supervisor.output.log_file import LogFile, Rotation
from ascend_supervisor.output.log_thread import LogWriter
from ascend_supervisor.process_spec import ProcessSpec
from ascend_supervisor.scarcity import scarcity
from ascend_supervisor.tasks.clock import TICK_SECONDS, whole_second


class RankListener(Struct, frozen=True):
    """Turns reports about the log of ``rank`` into events; to be called in any thread."""

    rank: int | None
    program: str | None
    path: Path
    report: Report
    loop: asyncio.AbstractEventLoop

    def blocked(self, reason: str) -> None:
        self._tell(LogBlocked(self.rank, str(self.path), reason, self.program))

    def lost(self, size: int, reason: str) -> None:
        self._tell(LogLost(self.rank, size, reason, self.program))

    def rotated(self) -> None:
        self._tell(LogRotated(self.rank, str(self.path), self.program))

    def _tell(self, event: Event) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self.loop.call_soon_threadsafe(self.report, event)


class RankLogs:
    """``origin`` (job and host) is in the first line of every file."""

    def __init__(self, rotation: Rotation, origin: str, report: Report) -> None:
        self._rotation = rotation
        self._origin = origin
        self._report = report
        self._logs: dict[Path, LogWriter] = {}

    async def open(self, specs: Sequence[ProcessSpec]) -> None:
        """Make the logs of ``specs``, all at once, unless an earlier generation has.

        Raises CannotWrite, Unavailable where no more files can be opened, or NoThread.
        """
        logs = [self._logs.get(Path(spec.log)) or self._new(spec) for spec in specs]
        refusals = [await self._refusal(spec, log) for spec, log in zip(specs, logs, strict=True)]
        if first := next(filter(None, refusals), None):
            raise first

    async def _refusal(self, spec: ProcessSpec, log: LogWriter) -> CannotWrite | Unavailable | None:
        """Why the log could not be opened; then it is forgotten, and made again the next time."""
        try:
            await log.opened()
        except OSError as error:
            log.close()
            self._logs.pop(log.path, None)
            if lacking := scarcity(error):
                return Unavailable(f"{spec.name}: cannot open its log: {lacking}")
            return CannotWrite(
                f"{spec.name}: cannot write its log {log.path}: {reason_of(error)}; "
                "choose another directory with --log-dir"
            )
        return None

    def begin(self, spec: ProcessSpec, generation: int) -> LogWriter:
        """The log of ``spec``, which is open, with a line that says that ``generation`` begins."""
        return self.noted(spec, f"generation {generation} of {spec.name} begins")

    def noted(self, spec: ProcessSpec, text: str) -> LogWriter:
        """The log of ``spec``, which is open, with a line of ours that says ``text``."""
        log = self._logs[Path(spec.log)]
        log.notice(self._line(text))
        return log

    def reopen(self) -> None:
        """Continue in new files of the same names, each from its next line on."""
        for log in self._logs.values():
            log.reopen()

    async def watch(self) -> NoReturn:
        """Report logs that cannot be written, even if ranks write little; never returns."""
        while True:
            is_writing = any(log.is_writing for log in self._logs.values())
            await (anyio.sleep(TICK_SECONDS) if is_writing else whole_second())
            for log in self._logs.values():
                log.look()

    async def finish(self) -> None:
        """Wait until everything is on disk, or lost and counted."""
        async with anyio.create_task_group() as tasks:
            for log in self._logs.values():
                tasks.start_soon(log.finish)
        await anyio.lowlevel.checkpoint()  # let the threads' last reports arrive

    def _new(self, spec: ProcessSpec) -> LogWriter:
        path = Path(spec.log)
        loop = asyncio.get_running_loop()
        listener = RankListener(spec.rank, spec.program, path, self._report, loop)
        file = LogFile(path, self._rotation, self._header(spec.name))
        log = self._logs[path] = LogWriter(file, listener, self._lost_line)
        return log

    def _header(self, name: str) -> Callable[[], bytes]:
        words = start_words(self._rotation.start)
        return partial(self._line, f"log of {name}, {self._origin}{words}")

    def _lost_line(self, size: int, reason: str) -> bytes:
        return self._line(f"{size} bytes are missing here: {reason}")

    def _line(self, text: str) -> bytes:
        moment = datetime.now(timezone.utc).isoformat(timespec="microseconds")
        return f"{OURS} {moment} {text}\n".encode(errors="backslashreplace")
