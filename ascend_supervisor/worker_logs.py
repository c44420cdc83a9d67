"""The logs that a launcher's workers write themselves: mirrored as if we had read a pipe."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

import anyio

from ascend_supervisor.plumbing.console import Mirror
from ascend_supervisor.plumbing.tail import POLL_SECONDS, Tail
from ascend_supervisor.plumbing.threads import in_thread
from ascend_supervisor.spec import ProcessSpec

PIECES_AT_ONCE = 16
"""Of 64 KiB; so much of a log is in memory."""


class WorkerLogs:
    """``mirror`` gives a rank's way to the console. ``run``, then ``finish``, when it has ended."""

    def __init__(self, spec: ProcessSpec, mirror: Callable[[ProcessSpec], Mirror | None]) -> None:
        self._mirrored: list[tuple[Tail, Mirror]] = []
        for log in spec.worker_logs:
            worker = replace(spec, title=None, rank=log.rank, local_rank=log.local_rank)
            way = mirror(worker)
            if way is not None:
                self._mirrored.append((Tail(Path(log.path)), way))

    async def run(self) -> None:
        """Mirror what comes, for ever."""
        while True:
            await self._catch_up()
            await anyio.sleep(POLL_SECONDS)

    async def finish(self) -> None:
        """Mirror what is left, and end unfinished lines."""
        await self._catch_up()
        for tail, mirror in self._mirrored:
            mirror.end()
            tail.close()

    async def _catch_up(self) -> None:
        for tail, mirror in self._mirrored:
            more = tail.more()
            while pieces := await in_thread(partial(_next, more)):
                for piece in pieces:
                    mirror.take(piece)


def _next(pieces: Iterator[bytes]) -> list[bytes]:
    """Reads; what cannot be read now may be read later."""
    try:
        return list(islice(pieces, PIECES_AT_ONCE))
    except OSError:
        return []
