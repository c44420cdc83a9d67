"""Looks at the rank table and the reset file once a second, for the life of the job.

Only changed files are read, because a supervisor that reads and writes all the time hides a hang
from the platform. File events are not used: a directory may be unlinked and made again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import NoReturn

import anyio
from msgspec.structs import replace

from ascend_supervisor.cluster.rank_table import FoundTable
from ascend_supervisor.cluster.reset_file import (
    MAX_BYTES,
    parse_reset_file,
    parse_restart_type,
)
from ascend_supervisor.cluster.wait_for_table import TableFile
from ascend_supervisor.coordination.followed_cluster.memory import (
    CompletedTable,
    Sight,
    Stamp,
    WithdrawnTable,
    WrongTable,
)
from ascend_supervisor.errors import TableRefused
from ascend_supervisor.files.regular_file import read_regular_file, reason_of
from ascend_supervisor.files.watch import (
    DEADLINE_SECONDS,
    FileSystemTimeout,
    Signature,
    SlowFiles,
    signature,
    signature_of,
)
from ascend_supervisor.scarcity import scarcity
from ascend_supervisor.tasks.clock import whole_second

FileLook = Callable[[], Awaitable[Sight]]

RESTART_TYPE = "restartType"
"""The file beside the reset file; the device plugin writes it right after that."""
MOST_OF_TYPE = 256
"""Bytes of it."""


class RankTableLook:
    """What the file of the rank table shows; no news while the file system does not answer."""

    def __init__(self, file: TableFile) -> None:
        self._file = file
        self._read: Signature = None
        self._seen = Sight()

    async def __call__(self) -> Sight:
        try:
            now = await self._file.signature()
            if now is None:
                self._read, self._seen = None, Sight()
            elif now != self._read:
                self._read, self._seen = await self._look(now)
        except FileSystemTimeout:
            return Sight()
        return self._seen

    async def _look(self, now: tuple[int, int, int, int, int]) -> tuple[Signature, Sight]:
        """The signature of what was read, None to have it read again, and what it shows."""
        try:
            seen = await self._file.look()
        except TableRefused as refusal:
            return now, Sight(WrongTable(refusal.faults))
        if isinstance(seen, FoundTable):
            return now, Sight(CompletedTable(seen, _stamp(now)))
        withdrawn = WithdrawnTable(seen.why.text, seen.is_projected) if seen.why.is_said else None
        return now if seen.was_read else None, Sight(withdrawn)


class GivenTable:
    """A table that came from no file, and never changes."""

    def __init__(self, found: FoundTable) -> None:
        self._sight = Sight(CompletedTable(found))

    async def __call__(self) -> Sight:
        return self._sight


class ResetFileLook:
    """What the reset file shows; no news if the file system does not answer within ``deadline``."""

    def __init__(self, path: Path, deadline: float = DEADLINE_SECONDS) -> None:
        self._path = path
        self._files = SlowFiles(deadline)
        self._read: _Read = None

    async def __call__(self) -> Sight:
        try:
            # Only an answer that comes in time was seen; a late one is asked for again.
            self._read, seen = await self._files.ask(partial(_reset_file, self._path, self._read))
        except FileSystemTimeout:
            return Sight()
        return seen


_Read = tuple[Signature, Signature] | None
"""The signatures of the reset file and of RESTART_TYPE; None to have them read again."""


def _reset_file(path: Path, before: _Read) -> tuple[_Read, Sight]:
    """What was read, and its news since ``before``; may block."""
    beside = path.with_name(RESTART_TYPE)
    try:
        now = signature_of(path.stat()), signature(beside)
        if now == before:
            return now, Sight(reset_is_there=True)
        reset = parse_reset_file(read_regular_file(path, MAX_BYTES))
    except (FileNotFoundError, NotADirectoryError):
        return None, Sight(reset_is_missing=True)
    except OSError as error:
        return None, Sight(reset_is_there=True, reset_trouble=scarcity(error) or reason_of(error))
    if reset is not None and now[1] is not None:
        reset = replace(reset, restart_type=_restart_type(beside))
    return now, Sight(reset=reset, reset_is_there=True)


def _restart_type(path: Path) -> str:
    try:
        return parse_restart_type(read_regular_file(path, MOST_OF_TYPE))
    except OSError:
        return ""


async def look_out(looks: tuple[FileLook, ...], notice: Callable[[Sight], None]) -> NoReturn:
    """Call ``notice`` with what each of ``looks`` has seen, every second; to be cancelled."""
    async with anyio.create_task_group() as tasks:
        for look in looks:
            tasks.start_soon(partial(_look_out, look, notice))
    raise AssertionError


async def _look_out(look: FileLook, notice: Callable[[Sight], None]) -> NoReturn:
    while True:
        notice(await look())
        await whole_second()


def _stamp(found: tuple[int, int, int, int, int]) -> Stamp:
    device, inode, _, modified, _ = found
    return device, inode, modified
