"""The logs that a launcher's workers write themselves: mirrored as if we had read a pipe.

If a log is not mirrored, only its size is checked.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path

import anyio
from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.events import Report
from ascend_supervisor.events.output import OutputUnread
from ascend_supervisor.output.growing_logs import POLL_SECONDS, Tail
from ascend_supervisor.output.mirror import Mirror
from ascend_supervisor.output.pump import Sink
from ascend_supervisor.process_spec import ProcessSpec
from ascend_supervisor.scarcity import NoThread
from ascend_supervisor.tasks.clock import Clock, whole_second
from ascend_supervisor.tasks.threads import Call

PIECES_AT_ONCE = 16
"""Of 64 KiB each; how much of a log is in memory."""


class WorkerLogs:
    """``mirror`` returns a rank's Mirror. ``run``, then ``finish`` after the process has ended.

    ``activities`` are those of the workers, in the order of ``ProcessSpec.worker_logs``.
    """

    def __init__(
        self,
        spec: ProcessSpec,
        mirror: Callable[[ProcessSpec], Mirror | None],
        clock: Clock,
        report: Report,
    ) -> None:
        self._report = report
        self._mirrored: list[_Mirrored] = []
        self._unshown: list[_Unshown] = []
        sinks = []
        for log in spec.worker_logs:
            worker = replace(spec, title=None, rank=log.rank, local_rank=log.local_rank)
            way = mirror(worker)
            sink = Sink(None, way, clock)
            sinks.append(sink)
            if way is None:
                self._unshown.append(_Unshown(Path(log.path), sink))
            else:
                self._mirrored.append(_Mirrored(worker, Tail(Path(log.path)), sink))
        self.activities = tuple(sink.activity for sink in sinks)

    async def run(self) -> None:
        """Mirror new output, and check the sizes of the other logs, for ever."""
        async with anyio.create_task_group() as tasks:
            if self._mirrored:
                tasks.start_soon(self._mirror)
            if self._unshown:
                tasks.start_soon(self._look)

    async def finish(self, seconds: float) -> None:
        """Mirror what is left, and end unfinished lines.

        Output that was not read after ``seconds`` is reported.
        """
        late = f"its log could not be read to the end within {seconds:g} s"
        unread = list(self._mirrored)
        with anyio.move_on_after(seconds, shield=True):
            for log in self._mirrored:
                await log.catch_up()  # what was begun before
                await log.catch_up()  # what came meanwhile
                unread.remove(log)
        for log in self._mirrored:
            reason = late if log in unread else log.trouble
            if reason is not None:
                worker = log.worker
                self._report(OutputUnread(worker.rank, str(log.path), reason, worker.program))
            log.finish()

    async def _mirror(self) -> None:
        while True:
            for log in self._mirrored:
                await log.catch_up()
            await anyio.sleep(POLL_SECONDS)

    async def _look(self) -> None:
        """One thread checks all of them: they are in one directory."""
        while True:
            with suppress(NoThread):
                found = await Call(lambda: [log.look() for log in self._unshown]).result()
                for log, now in zip(self._unshown, found, strict=True):
                    log.note(now)
            await whole_second()


class _Look(Struct, frozen=True):
    """A log as one look found it: ``size`` in bytes, ``changed_at`` in nanoseconds."""

    inode: int = 0
    size: int = 0
    changed_at: int = 0


class _Unshown:
    """A log that is not read. If it is written anew, it counts from its beginning."""

    def __init__(self, path: Path, sink: Sink) -> None:
        self._path = path
        self._sink = sink
        self._known = _Look()

    def look(self) -> _Look:
        """What is known already if the log cannot be read. May block."""
        with suppress(OSError):
            found = self._path.stat()
            return _Look(found.st_ino, found.st_size, found.st_mtime_ns)
        return self._known

    def note(self, now: _Look) -> None:
        """Note what a look found."""
        before, self._known = self._known, now
        if now != before:
            goes_on = now.inode == before.inode and now.size >= before.size
            self._sink.heard(now.size - before.size if goes_on else now.size)


class _Read(Struct, frozen=True):
    """What was read, why no more could be read, and whether there may be more."""

    pieces: Sequence[bytes]
    trouble: str | None
    goes_on: bool


class _Mirrored:
    """One log: one read at a time; the result of an abandoned read is not lost."""

    def __init__(self, worker: ProcessSpec, tail: Tail, sink: Sink) -> None:
        self.worker = worker
        self.trouble: str | None = None
        """Why the last look could not read it to its end."""
        self._tail = tail
        self._sink = sink
        self._pieces = tail.more()
        self._reading: Call[_Read] | None = None
        self._waiting: deque[bytes] = deque()
        """What was read and waits for room on the console."""

    @property
    def path(self) -> Path:
        return self._tail.path

    async def catch_up(self) -> None:
        """Mirror what is there now; continues where an earlier call was cancelled."""
        await self._show()
        goes_on = True
        while goes_on:
            goes_on = await self._mirror_more()
        self._pieces = self._tail.more()

    def finish(self) -> None:
        """No more output follows; a read that hangs is abandoned."""
        while self._waiting:
            self._sink.take(self._portion())
        self._sink.end()
        if self._reading is None:
            self._tail.close()
        else:
            self._reading.then(self._tail.close)

    async def _mirror_more(self) -> bool:
        if self._reading is None:
            self._reading = Call(partial(_read, self._tail, self._pieces))
        try:
            read = await self._reading.result()
        except NoThread as lacking:
            read = _Read((), str(lacking), goes_on=False)
        self._reading = None
        self._waiting.extend(read.pieces)
        self.trouble = read.trouble
        await self._show()
        return read.goes_on

    async def _show(self) -> None:
        while self._waiting:
            await self._sink.room_on_console()
            self._sink.take(self._portion())

    def _portion(self) -> bytes:
        """The next bytes of what waits, as many as the console wants at once."""
        piece, size = self._waiting.popleft(), self._sink.portion
        if len(piece) > size:
            self._waiting.appendleft(piece[size:])
        return piece[:size]


def _read(tail: Tail, pieces: Iterator[bytes]) -> _Read:
    """Some of ``pieces``; what cannot be read now may be read later."""
    found: list[bytes] = []
    error: OSError | None = None
    try:
        for piece in islice(pieces, PIECES_AT_ONCE):
            found.append(piece)  # noqa: PERF402  (what was read before an error is not lost)
        error = tail.trouble
    except OSError as refusal:
        error = refusal
    if error is None or error.errno == errno.ENOENT:  # a worker that wrote nothing has no log
        return _Read(found, None, goes_on=len(found) == PIECES_AT_ONCE)
    return _Read(found, error.strerror or str(error), goes_on=False)
