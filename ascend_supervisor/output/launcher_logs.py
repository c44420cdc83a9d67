"""The logs that a launcher's workers write themselves: mirrored as if we had read a pipe."""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path

import anyio

from ascend_supervisor.errors import Unavailable
from ascend_supervisor.events import OutputUnread, Report
from ascend_supervisor.launchers.spec import ProcessSpec
from ascend_supervisor.output.mirror import Mirror
from ascend_supervisor.output.tail import POLL_SECONDS, Tail
from ascend_supervisor.tasks.threads import Errand

PIECES_AT_ONCE = 16
"""Of 64 KiB; so much of a log is in memory."""


class WorkerLogs:
    """``mirror`` gives a rank's way to the console. ``run``, then ``finish``, when it has ended."""

    def __init__(
        self,
        spec: ProcessSpec,
        mirror: Callable[[ProcessSpec], Mirror | None],
        report: Report,
    ) -> None:
        self._report = report
        self._logs: list[_Mirrored] = []
        for log in spec.worker_logs:
            worker = replace(spec, title=None, rank=log.rank, local_rank=log.local_rank)
            way = mirror(worker)
            if way is not None:
                self._logs.append(_Mirrored(worker, Tail(Path(log.path)), way))

    async def run(self) -> None:
        """Mirror what comes, for ever."""
        while True:
            for log in self._logs:
                await log.catch_up()
            await anyio.sleep(POLL_SECONDS)

    async def finish(self, seconds: float) -> None:
        """Mirror what is left, and end unfinished lines.

        What has not been read after ``seconds`` is told.
        """
        late = f"its disk did not give all of it within {seconds:g} s"
        unread = list(self._logs)
        with anyio.move_on_after(seconds, shield=True):
            for log in self._logs:
                await log.catch_up()  # what was begun before
                await log.catch_up()  # what came meanwhile
                unread.remove(log)
        for log in self._logs:
            reason = late if log in unread else log.trouble
            if reason is not None:
                worker = log.worker
                self._report(OutputUnread(worker.rank, str(log.path), reason, worker.program))
            log.finish()


@dataclass(frozen=True, slots=True)
class _Read:
    """What was read, why not more could be, and whether there may be more."""

    pieces: Sequence[bytes]
    trouble: str | None
    goes_on: bool


class _Mirrored:
    """One log: one read at a time, and nothing is lost of one that nobody has waited for."""

    def __init__(self, worker: ProcessSpec, tail: Tail, mirror: Mirror) -> None:
        self.worker = worker
        self.trouble: str | None = None
        """Why the last look could not read it to its end."""
        self._tail = tail
        self._mirror = mirror
        self._pieces = tail.more()
        self._errand: Errand[_Read] | None = None
        self._waiting: deque[bytes] = deque()
        """What was read, and waits for room on the console."""

    @property
    def path(self) -> Path:
        return self._tail.path

    async def catch_up(self) -> None:
        """Mirror what there is by now; goes on where an earlier call was cancelled."""
        await self._show()
        goes_on = True
        while goes_on:
            goes_on = await self._mirror_more()
        self._pieces = self._tail.more()

    def finish(self) -> None:
        """Nothing follows; a read that still hangs is left behind."""
        while self._waiting:
            self._mirror.take(self._waiting.popleft())
        self._mirror.end()
        if self._errand is None:
            self._tail.close()
        else:
            self._errand.then(self._tail.close)

    async def _mirror_more(self) -> bool:
        if self._errand is None:
            self._errand = Errand(partial(_read, self._tail, self._pieces))
        try:
            read = await self._errand.result()
        except Unavailable as refusal:
            read = _Read((), str(refusal), goes_on=False)
        self._errand = None
        self._waiting.extend(read.pieces)
        self.trouble = read.trouble
        await self._show()
        return read.goes_on

    async def _show(self) -> None:
        while self._waiting:
            await self._mirror.room()
            self._mirror.take(self._waiting.popleft())


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
