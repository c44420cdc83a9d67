"""Wait until the rank table is completed, and keep our own copy of it for the ranks.

The writers truncate and write in place, swap symlinks, or mount a file that never changes; what is
torn, empty or missing is not ready yet. Only a table that says it is completed can be wrong.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path, PurePath

import anyio

from ascend_supervisor.cluster.conversion import standalone
from ascend_supervisor.cluster.parsing import MAX_BYTES, parse
from ascend_supervisor.cluster.rank_table import FoundTable, NotReady, RankTable
from ascend_supervisor.errors import CannotWrite, TableRefused, TableTimeout, Unavailable
from ascend_supervisor.events import RankTableUnwatched, RankTableWaiting, Report
from ascend_supervisor.files.atomic import remove_remnants, write_atomically
from ascend_supervisor.files.regular import read_regular_file
from ascend_supervisor.files.watch import FileWatch, Signature, Silence, SlowFiles, signature
from ascend_supervisor.paths import TABLE_FILE
from ascend_supervisor.tasks.clock import Clock
from ascend_supervisor.tasks.threads import in_thread

FILE_NAMES = (TABLE_FILE, "hccl.json")
"""What the file may be called where a directory is named."""
USUAL_PLACES = ("/user/config/jobstart_hccl.json", "/user/serverid/devindex/config/hccl.json")
TELL_SECONDS = 10.0
TELL_SECONDS_AT_MOST = 300.0
CHANGES_SECONDS = 1.0
"""A reason that changes faster than this is not told every time."""
COPY_MODE = 0o644
STANDALONE, DECLARED = Path("--standalone"), Path("environment")
"""What stands for the path of a table that came from no file."""


def table_places(explicit: str | None, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Files or directories where the table may be: the first that is named, else the usual ones."""
    named = (
        explicit or environ.get("RANK_TABLE_FILE_V_1_0") or environ.get("RANK_TABLE_FILE") or None
    )
    return (Path(named),) if named else tuple(map(Path, USUAL_PLACES))


def keep_copy(document: bytes, path: PurePath) -> None:
    """Write ``document`` to ``path``, which the ranks see complete or not at all.

    Raises CannotWrite.
    """
    try:
        if not _holds(Path(path), document):  # a full disk then keeps no generation
            remove_remnants(Path(path))
            write_atomically(Path(path), document, COPY_MODE)
    except OSError as error:
        raise CannotWrite(
            f"cannot write the ranks' copy of the rank table {path}: {error.strerror or error}"
        ) from error


def _holds(path: Path, document: bytes) -> bool:
    with suppress(OSError):
        return read_regular_file(path, len(document)) == document
    return False


def standalone_table(devices: int) -> FoundTable:
    """A table of our own for one machine without a cluster; raises TableRefused."""
    document = standalone(devices)
    table = parse(document)
    if isinstance(table, NotReady):
        raise TableRefused(table.reason)
    return found_in(STANDALONE, table)


def found_in(place: Path, table: RankTable) -> FoundTable:
    """A table that came from no file; its sum is that of its entries where nobody is handed it."""
    content = table.document or repr(table.entries).encode()
    return FoundTable(place, table, sha256(content).hexdigest())


DETACHED = (
    "; the file was replaced, but this mount shows the old one for ever (subPath): "
    "mount its directory instead"
)


@dataclass(frozen=True, slots=True)
class Seen:
    """What is at ``path``; ``hint`` belongs to every reason for waiting."""

    path: Path
    content: bytes | NotReady
    hint: str = ""


def read_table(places: Sequence[Path]) -> Seen:
    """What is where ``places`` lead to; may block.

    Raises TableRefused for a file that is larger than any table, unread.
    """
    path = _resolved(places)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        return Seen(path, NotReady(_unreadable(error)))
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return Seen(path, NotReady("it is not a regular file"))
        if found.st_size > MAX_BYTES:
            raise TableRefused(
                f"{path}: expected a rank table of at most {MAX_BYTES} bytes, "
                f"found {found.st_size}; it was not read"
            )
        try:
            data = file.read(MAX_BYTES + 1)
        except OSError as error:
            return Seen(path, NotReady(_unreadable(error)))
    return Seen(path, data, "" if found.st_nlink else DETACHED)


@dataclass(frozen=True, slots=True)
class Unready:
    """What is at ``path`` is no table yet; ``was_read``: it will not be before it changes."""

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
        seen: FoundTable | Unready = Unready(self._places[0], str(Silence()))
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
                tasks.start_soon(watch.watch, partial(_watched, self._places))
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
                now = await self._files.ask(partial(_signature, self._places))
            except Silence as silence:
                waiting.tell(waiting.path, str(silence))
                continue
            if now == before:
                waiting.tell(waiting.path, waiting.reason)
                continue
            seen = await self._look()
            if isinstance(seen, FoundTable):
                return seen
            before = now if seen.was_read else None  # of a mend nothing tells but a new look
            waiting.tell(seen.path, seen.reason)

    async def _look(self) -> FoundTable | Unready:
        try:
            seen = await self._files.ask(partial(read_table, self._places))
            if isinstance(seen.content, NotReady):
                return Unready(seen.path, seen.content.reason)
            found = await self._parse(seen.path, seen.content)
        except (Silence, Unavailable) as obstacle:
            return Unready(self._places[0], str(obstacle))
        if isinstance(found, NotReady):
            return Unready(seen.path, found.reason + seen.hint, was_read=True)
        return found

    async def _parse(self, path: Path, content: bytes) -> FoundTable | NotReady:
        digest = sha256(content).hexdigest()
        if self._parsed and (self._parsed.path, self._parsed.sha256) == (path, digest):
            return self._parsed
        try:
            # In a thread: a large table takes a second, in which signals are to be heard.
            table = await in_thread(partial(parse, content))
        except TableRefused as refusal:
            raise TableRefused(*(f"{path}: {fault}" for fault in refusal.faults)) from refusal
        if isinstance(table, NotReady):
            return table
        self._parsed = FoundTable(path, table, digest)
        return self._parsed


class _Waiting:
    """Tells why we wait: when the reason changes, and at growing intervals."""

    def __init__(self, path: Path, clock: Clock, report: Report) -> None:
        self.path = path
        self.reason = ""
        self.refusal: TableRefused | None = None
        self._clock = clock
        self._report = report
        self._since = clock.now()
        self._told_at = -CHANGES_SECONDS
        self._told = ""
        self._interval = TELL_SECONDS

    def tell(self, path: Path, reason: str) -> None:
        self.path, self.reason = path, reason
        waited = self._clock.now() - self._since
        silent_for = waited - self._told_at
        changed = reason != self._told and silent_for >= CHANGES_SECONDS
        if not changed and silent_for < self._interval:
            return
        if not changed:
            self._interval = min(2 * self._interval, TELL_SECONDS_AT_MOST)
        self._told, self._told_at = reason, waited
        self._report(RankTableWaiting(str(path), reason, round(waited, 3)))


def _resolved(places: Sequence[Path]) -> Path:
    """The first file that exists; where none does, the one that is most to be expected."""
    files = [file for place in places for file in _files_of(place)]
    return next((file for file in files if os.path.exists(file)), files[0])  # noqa: PTH110


def _files_of(place: Path) -> list[Path]:
    # os.path says no where Path would raise: without permission, or of a dead mount.
    if os.path.isdir(place) or not place.suffix:  # noqa: PTH112
        return [place / name for name in FILE_NAMES] if not os.path.isfile(place) else [place]  # noqa: PTH113
    return [place]


def _signature(places: Sequence[Path]) -> tuple[Path, Signature]:
    path = _resolved(places)
    return path, signature(path)


def _watched(places: Sequence[Path]) -> Path:
    """The directory in which something will happen."""
    return _resolved(places).parent


def _unreadable(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    return f"it cannot be read: {error.strerror or error}"
