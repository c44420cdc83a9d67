"""Wait until the rank table is completed.

Writers truncate and write in place, swap symlinks, or mount a file that never changes. A torn,
empty or missing file is not ready yet. Only a table that says it is completed can be wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path

import anyio
from msgspec import Struct

from ascend_supervisor.cluster.conversion import standalone
from ascend_supervisor.cluster.parsing import parse
from ascend_supervisor.cluster.rank_table import FoundTable, NotReady, RankTable
from ascend_supervisor.cluster.table_file import read_table, signature_at, watched_path
from ascend_supervisor.errors import TableRefused, TableTimeout
from ascend_supervisor.events import RankTableUnwatched, RankTableWaiting, Report
from ascend_supervisor.files.watch import FileSystemTimeout, FileWatch, Signature, SlowFiles
from ascend_supervisor.scarcity import NoThread
from ascend_supervisor.tasks.clock import Clock
from ascend_supervisor.tasks.threads import in_thread

TELL_SECONDS = 10.0
TELL_SECONDS_AT_MOST = 300.0
CHANGES_SECONDS = 1.0
"""A reason that changes faster than this is not reported every time."""
STANDALONE, DECLARED = Path("--standalone"), Path("environment")
"""What stands for the path of a table that came from no file."""


def standalone_table(devices: int) -> FoundTable:
    """A table of our own for one machine without a cluster; raises TableRefused."""
    document = standalone(devices)
    table = parse(document)
    if isinstance(table, NotReady):
        raise TableRefused(table.reason)
    return found_in(STANDALONE, table)


def found_in(place: Path, table: RankTable) -> FoundTable:
    """A table that came from no file; if ranks get no file, the digest covers the entries."""
    content = table.document or repr(table.entries).encode()
    return FoundTable(place, table, sha256(content).hexdigest())


class Unready(Struct, frozen=True):
    """There is no table at ``path`` yet; ``was_read``: look again only after a change."""

    path: Path
    reason: str
    was_read: bool = False


class TableFile:
    """The table where the platform writes it; ``wait`` may be called again for a later one."""

    def __init__(self, places: Sequence[Path], clock: Clock, report: Report) -> None:
        self._places = tuple(places)
        self._clock = clock
        self._report = report
        self._files = SlowFiles()
        self._parsed: FoundTable | None = None

    async def now(self) -> FoundTable:
        """The table, if it is completed; raises TableRefused or TableTimeout."""
        seen = await self._look()
        if isinstance(seen, FoundTable):
            return seen
        raise TableTimeout(f"{seen.path}: expected a completed rank table, found: {seen.reason}")

    async def wait(self, timeout: float | None) -> FoundTable:  # noqa: ASYNC109  (its message says what was last seen)
        """The table, once it is completed.

        Raises TableRefused, or TableTimeout after ``timeout`` seconds (None: never).
        """
        waiting = _Waiting(self._places[0], self._clock, self._report)
        began = self._clock.now()
        seen: FoundTable | Unready = Unready(self._places[0], str(FileSystemTimeout()))
        with anyio.move_on_after(timeout):
            seen = await self._look()
        if isinstance(seen, FoundTable):
            return seen
        waiting.tell(seen.path, seen.reason)
        watch = FileWatch(
            lambda reason: self._report(RankTableUnwatched(str(waiting.path), reason))
        )
        found: FoundTable | None = None
        left = None if timeout is None else timeout - (self._clock.now() - began)
        with anyio.move_on_after(left):
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
            raise TableTimeout(
                f"{waiting.path}: expected a completed rank table within {timeout:g} s, found: "
                f"{waiting.reason}; see whether the cluster has placed all pods, or allow more "
                "time with --rank-table-timeout"
            )
        return found

    async def _keep_looking(self, waiting: _Waiting, watch: FileWatch) -> FoundTable:
        before: tuple[Path, Signature] | None = None
        while True:
            await watch.tick()
            try:
                now = await self._files.ask(partial(signature_at, self._places))
            except FileSystemTimeout as timeout:
                waiting.tell(waiting.path, str(timeout))
                continue
            if now == before:
                waiting.tell(waiting.path, waiting.reason)
                continue
            seen = await self._look()
            if isinstance(seen, FoundTable):
                return seen
            before = now if seen.was_read else None  # no event reports the repair, so poll
            waiting.tell(seen.path, seen.reason)

    async def _look(self) -> FoundTable | Unready:
        try:
            seen = await self._files.ask(partial(read_table, self._places))
            if isinstance(seen.content, NotReady):
                return Unready(seen.path, seen.content.reason)
            found = await self._parse(seen.path, seen.content)
        except (FileSystemTimeout, NoThread) as obstacle:
            return Unready(self._places[0], str(obstacle))
        if isinstance(found, NotReady):
            return Unready(seen.path, found.reason + seen.hint, was_read=True)
        return found

    async def _parse(self, path: Path, content: bytes) -> FoundTable | NotReady:
        digest = sha256(content).hexdigest()
        if self._parsed and (self._parsed.path, self._parsed.sha256) == (path, digest):
            return self._parsed
        try:
            # In a thread: a large table takes a second, and signals must be handled meanwhile.
            table = await in_thread(partial(parse, content))
        except TableRefused as refusal:
            raise TableRefused(*(f"{path}: {fault}" for fault in refusal.faults)) from refusal
        if isinstance(table, NotReady):
            return table
        self._parsed = FoundTable(path, table, digest)
        return self._parsed


class _Waiting:
    """Reports why we wait: when the reason changes, and at growing intervals."""

    def __init__(self, path: Path, clock: Clock, report: Report) -> None:
        self.path = path
        self.reason = ""
        self.refusal: TableRefused | None = None
        self._clock = clock
        self._report = report
        self._since = clock.elapsed()
        self._told_at = -CHANGES_SECONDS
        self._told = ""
        self._interval = TELL_SECONDS

    def tell(self, path: Path, reason: str) -> None:
        self.path, self.reason = path, reason
        waited = self._clock.elapsed() - self._since
        silent_for = waited - self._told_at
        changed = reason != self._told and silent_for >= CHANGES_SECONDS
        if not changed and silent_for < self._interval:
            return
        if not changed:
            self._interval = min(2 * self._interval, TELL_SECONDS_AT_MOST)
        self._told, self._told_at = reason, waited
        self._report(RankTableWaiting(str(path), reason, round(waited, 3)))
