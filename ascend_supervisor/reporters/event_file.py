"""The last events of this job as JSON lines in a file, for those who come after its end.

Nothing of a rank's output is in it. Its ``seq`` counts the events of one start in this file.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import count
from pathlib import Path, PurePath

import anyio

from ascend_supervisor.events import Event, Report
from ascend_supervisor.events.output import LogLost
from ascend_supervisor.events.supervisor import Diagnostic
from ascend_supervisor.files.regular_file import end_of, opened, reason_of
from ascend_supervisor.output.json_lines import Origin
from ascend_supervisor.output.log_file import LogFile, Rotation
from ascend_supervisor.output.log_thread import LogWriter
from ascend_supervisor.reporters.event_log import lines_log
from ascend_supervisor.scarcity import NoThread, scarcity
from ascend_supervisor.tasks.clock import TICK_SECONDS, whole_second

KEPT = Rotation(max_bytes=16 * 1024 * 1024, keep=1, continues=True)
"""At least the last 16 MiB, over all starts; one older file."""
SOURCE = "the event log"


class EventFile:
    """``report`` keeps events, in the end also those before ``begin``; a trouble stops nothing.

    ``tell`` reports a trouble. ``path`` None: nothing is kept. Before ``begin`` nothing is
    written, because the file may be another supervisor's.
    """

    def __init__(self, path: PurePath | None, origin: Origin, tell: Report) -> None:
        self._path = None if path is None else Path(path)
        self._tell = tell
        self._waiting: list[bytes] = []
        """What has come before the file was open."""
        self._is_open = False
        self._loop = asyncio.get_running_loop()
        self._numbers = count()
        self._render = lines_log(self._take, origin, "info")
        self._render_lost = lines_log(self._keep_lost_line, origin, "info")
        self._lost_line = b""
        self._log: LogWriter | None = None
        self._begun = anyio.Event()

    def report(self, event: Event) -> None:
        if self._path is not None:
            self._render(event)

    def begin(self) -> None:
        """Open the file, and write what has come so far and every event from now on."""
        if self._path is not None:
            try:
                file = LogFile(self._path, KEPT, self._head)
                self._log = LogWriter(file, self, self._line_of_lost)
            except NoThread:
                self._give_up()
        self._begun.set()

    async def watch(self) -> None:
        """Report a file that cannot be opened or written; returns if there is none."""
        await self._begun.wait()
        await self._go_on()
        while (log := self._log) is not None:
            await (anyio.sleep(TICK_SECONDS) if log.is_writing else whole_second())
            if log is self._log:  # it may have been given up meanwhile
                log.look()

    async def finish(self) -> None:
        """Wait until everything is written, or the disk makes no progress."""
        await self._go_on()
        if self._log is not None:
            await self._log.finish()
            await anyio.lowlevel.checkpoint()  # let the thread's last report arrive

    async def _go_on(self) -> None:
        """Write what has waited for the file, if it can be opened."""
        if self._log is None:
            return
        try:
            await self._log.opened()  # several may wait for it
        except OSError as error:
            path = self._path
            self._give_up()
            if path is not None and not scarcity(error):
                self._refuse(path, reason_of(error))
        else:
            self._is_open = True
            for line in self._waiting:
                self._log.take(line)
            self._waiting.clear()

    def _give_up(self) -> None:
        """Where threads or descriptors are lacking, the ranks lack them, too, which is told."""
        if self._log is not None:
            self._log.close()
        self._log = self._path = None
        self._waiting.clear()

    def blocked(self, reason: str) -> None:
        if self._path is not None:
            self._refuse(self._path, reason)

    def lost(self, size: int, reason: str) -> None:
        """The line that marks the place says it, too, if it can be written."""
        text = f"{size} bytes of events are missing in {self._path}: {reason}"
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._tell, Diagnostic(SOURCE, text, None))

    def rotated(self) -> None:
        """Nobody needs to know."""

    def _refuse(self, path: Path, reason: str) -> None:
        self._tell(Diagnostic(SOURCE, f"{path} cannot be written: {reason}", None))

    def _take(self, line: bytes) -> None:
        numbered = b'{"seq":%d,%b' % (next(self._numbers), line[1:])
        if self._log is None or not self._is_open:
            self._waiting.append(numbered)
        else:
            self._log.take(numbered)

    def _head(self) -> bytes:
        """An earlier start that was killed may have left half a line."""
        with suppress(OSError), opened(self._path or "") as file:
            last = end_of(file, 1)
            return b"" if last in {b"", b"\n"} else b"\n"
        return b""

    def _line_of_lost(self, size: int, reason: str) -> bytes:
        self._render_lost(LogLost(None, size, reason, "events"))
        return self._lost_line

    def _keep_lost_line(self, line: bytes) -> None:
        self._lost_line = line
