"""Wait until the rank table is completed.

Writers truncate and write in place, swap symlinks, or mount a file that never changes. A torn,
empty or missing file is not ready yet. Only a table that says it is completed can be wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path

import anyio
from msgspec import Struct
from msgspec.structs import replace

from ascend_supervisor.cluster.parsing import parse
from ascend_supervisor.cluster.rank_table import FoundTable, NotReady, RankTable
from ascend_supervisor.cluster.table_file import read_table, signature_at, watched_path
from ascend_supervisor.errors import TableRefused, TableTimeout
from ascend_supervisor.events import Report
from ascend_supervisor.events.leftovers import wait_ended
from ascend_supervisor.events.rank_table import (
    RankTableUnwatched,
    RankTableWaiting,
)
from ascend_supervisor.files.watch import (
    POLL_SECONDS,
    FileSystemTimeout,
    FileWatch,
    Signature,
    SlowFiles,
)
from ascend_supervisor.scarcity import NoThread
from ascend_supervisor.tasks.clock import Clock
from ascend_supervisor.tasks.long_wait import TABLE, LongWait
from ascend_supervisor.tasks.threads import Call

LASTING_SECONDS = 10.0
"""What has been unreadable for so long is no torn write any more."""


class Unready(Struct, frozen=True):
    """There is no table at ``path`` yet; ``was_read``: look again only after a change.

    ``is_projected``: the file is that of a ConfigMap, whose changes show late.
    """

    path: Path
    why: NotReady
    was_read: bool = False
    is_projected: bool = False


SILENT = NotReady(str(FileSystemTimeout()), advice="")


class TableFile:
    """The table where the platform writes it; ``wait`` may be called again for a later one."""

    def __init__(
        self,
        places: Sequence[Path],
        clock: Clock,
        report: Report,
        others: str = "",
        doubts: Callable[[RankTable], tuple[str, ...]] = lambda _: (),
        npus: int = 0,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        """``others``: sources that were tried besides, told where there is no file.

        ``doubts`` are further warnings about a table. ``npus`` are those of this machine, if it may
        be all of the job.
        """
        self._places = tuple(places)
        self._others = others
        self._doubts = doubts
        self._npus = npus
        self._poll_seconds = poll_seconds
        self._clock = clock
        self._report = report
        self._files = SlowFiles()
        self._parsed: FoundTable | None = None

    async def now(self) -> FoundTable:
        """The table, if it is completed; raises TableRefused or TableTimeout."""
        seen = await self.look()
        if isinstance(seen, FoundTable):
            return seen
        raise TableTimeout(f"{seen.path}: expected a completed rank table, found: {seen.why.told}")

    async def wait(self, timeout: float | None) -> FoundTable:  # noqa: ASYNC109  (its message says what was last seen)
        """The table, once it is completed.

        Raises TableRefused, or TableTimeout after ``timeout`` seconds (None: never).
        """
        began = self._clock.now()
        seen: FoundTable | Unready = Unready(self._places[0], SILENT)
        with anyio.move_on_after(timeout):
            seen = await self.look()
        if isinstance(seen, FoundTable):
            return seen
        found: FoundTable | None = None
        left = None if timeout is None else timeout - (self._clock.now() - began)
        with (
            _Waiting(seen, timeout, self._clock, self._report) as waiting,
            anyio.move_on_after(left),
        ):
            waiting.tell(seen)
            watch = FileWatch(
                lambda reason: self._report(RankTableUnwatched(str(waiting.seen.path), reason)),
                poll_seconds=self._poll_seconds,
            )
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(watch.watch, partial(watched_path, self._places))
                try:
                    found = await self._keep_looking(waiting, watch)
                except TableRefused as refusal:
                    waiting.refusal = refusal
                tasks.cancel_scope.cancel()
        if waiting.refusal:
            raise waiting.refusal
        if found is None:
            raise _timed_out(waiting.seen.path, waiting.why, timeout)
        return found

    async def _keep_looking(self, waiting: _Waiting, watch: FileWatch) -> FoundTable:
        before: tuple[Path, Signature] | None = None
        while True:
            await watch.tick()
            try:
                now = await self._files.ask(partial(signature_at, self._places))
            except FileSystemTimeout as timeout:
                waiting.tell(Unready(waiting.seen.path, NotReady(str(timeout), advice="")))
                continue
            if now == before:
                waiting.tell(waiting.seen)
                continue
            seen = await self.look()
            if isinstance(seen, FoundTable):
                return seen
            before = now if seen.was_read else None  # no event reports the repair, so poll
            waiting.tell(seen)

    async def signature(self) -> Signature:
        """Of the file as it is now; raises FileSystemTimeout."""
        _, found = await self._files.ask(partial(signature_at, self._places))
        return found

    async def look(self) -> FoundTable | Unready:
        """The table as it is now; raises TableRefused."""
        try:
            seen = await self._files.ask(
                partial(read_table, self._places, self._others, self._npus)
            )
            if isinstance(seen.content, NotReady):
                return Unready(seen.path, seen.content)
            found = await self._parse(seen.path, seen.content)
        except (FileSystemTimeout, NoThread) as obstacle:
            return Unready(self._places[0], NotReady(str(obstacle), advice=""))
        if isinstance(found, NotReady):
            why = NotReady(found.reason + seen.hint, advice="") if seen.hint else found
            return Unready(seen.path, why, was_read=True, is_projected=seen.is_projected)
        return found

    async def _parse(self, path: Path, content: bytes) -> FoundTable | NotReady:
        digest = sha256(content).hexdigest()
        if self._parsed and (self._parsed.path, self._parsed.sha256) == (path, digest):
            return self._parsed
        try:
            # In a thread: a large table takes a second, and signals must be handled meanwhile.
            table = await Call(partial(parse, content)).result()
        except TableRefused as refusal:
            raise TableRefused(*(f"{path}: {fault}" for fault in refusal.faults)) from refusal
        if isinstance(table, NotReady):
            return table
        warned = replace(table, warnings=(*table.warnings, *self._doubts(table)))
        self._parsed = FoundTable(path, warned, digest)
        return self._parsed


def _timed_out(path: Path, why: NotReady, timeout: float | None) -> TableTimeout:
    advice = f"{why.advice}, or allow" if why.advice else "allow"
    return TableTimeout(
        f"{path}: expected a completed rank table within {timeout:g} s, found: {why.text}; "
        f"{advice} more time with --rank-table-timeout"
    )


class _Waiting(LongWait):
    """Reports why we wait: when the reason changes, and at growing intervals."""

    def __init__(self, seen: Unready, timeout: float | None, clock: Clock, report: Report) -> None:
        super().__init__(TABLE, clock.elapsed, wait_ended(report))
        self.seen = seen
        self.refusal: TableRefused | None = None
        self._timeout = timeout
        self._clock = clock
        self._report = report
        self._unchanged_since = clock.now()

    @property
    def why(self) -> NotReady:
        lasting = self.seen.why.lasting
        if lasting and self._clock.now() - self._unchanged_since >= LASTING_SECONDS:
            return lasting
        return self.seen.why

    def tell(self, seen: Unready) -> None:
        if seen != self.seen:
            self.seen, self._unchanged_since = seen, self._clock.now()
        why = self.why
        if self.is_due(why.reason):
            waited = self.told(why.reason)
            self._report(RankTableWaiting(str(seen.path), why.told, waited, self._timeout))
